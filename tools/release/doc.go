// Command release rehearses and publishes releases of this repository: the modules, the images of the operators, their
// charts, their bundles, the catalog, and manifests that install them.
//
//	release rehearse -version V -o FOLDER -modules "..." -operators "..." [-root FOLDER] [-tools FOLDER]
//	                 [-to REGISTRY/PREFIX/]
//	release publish -o FOLDER -to REGISTRY/PREFIX/ [-root FOLDER] [-tools FOLDER] [-remote NAME]
//	release page -o FOLDER [-root FOLDER]
//
// A rehearsal executes every step and publishes nothing. It writes everything that would be published into the folder, with
// the checksums of all files and a plan of their destinations. It needs a network only for modules that Go's module cache
// lacks. It proves that the modules can be imported: it creates the commit and the tags in a repository of its own, lets the
// go command fetch the modules by these tags, and compiles all of their packages outside the repository.
//
// Publishing pushes the output of a rehearsal unchanged and builds nothing. The tags come last, so that a version is never
// importable before its images exist. Nothing is pushed if the version exists already with other content. The page is the
// release's page on the forge, with the files for download. The command gh creates it.
//
// The modules in git require each other at v0.0.0 and replace each other by folders, which does not work outside the
// repository. Therefore a release is a commit of its own, beside the branch, in which they require each other at the
// released version. Its parent is the commit being released. All tags except the one with the version alone point to it.
//
// This is a module of its own, outside the workspace.
package main
