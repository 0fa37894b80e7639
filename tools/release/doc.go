// Command release rehearses and publishes releases of this repository: the modules, the images of the operators, their
// charts, their bundles, the catalog, and manifests that install them.
//
//	release rehearse -version V -o FOLDER -modules "..." -operators "..." [-root FOLDER] [-tools FOLDER]
//	                 [-to REGISTRY/PREFIX/]
//	release publish -o FOLDER -to REGISTRY/PREFIX/ [-root FOLDER] [-tools FOLDER] [-remote NAME]
//	release page -o FOLDER [-root FOLDER]
//
// A rehearsal executes every step and publishes nothing. What it leaves in the folder is what would be published, with the
// checksums of all files and a list of what goes where. It needs a network only for what Go's cache of modules lacks. It
// proves that the modules can be imported: it makes the commit and the tags in a repository of its own, lets the go command
// fetch the modules by these tags, and compiles all of their packages outside the repository.
//
// To publish is to push what a rehearsal left, as it is: nothing is built any more. The tags come last, so that nobody
// imports a version whose images are not there. Nothing is pushed if something else has the version already. The page is the
// one of the release on the forge, with the files that people download one by one; it is made by the command gh.
//
// The modules in git require each other at v0.0.0 and replace each other by folders, which nobody outside can use. So a
// release is a commit of its own, beside the branch, in which they require each other at the version that is released; its
// parent is the commit that was released, and all tags but the one with the version alone are on it.
//
// This is a module of its own, outside the workspace.
package main
