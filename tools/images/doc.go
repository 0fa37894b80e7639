// Command images builds the image of an operator without Docker, for amd64 and arm64, as a folder in the OCI layout and as
// an archive of it. On request it pushes the image to a registry.
//
//	images build -o FOLDER [-version V] [PROJECT] OPERATOR...
//	images push -o FOLDER -to REGISTRY/PREFIX/ [-version V] [PROJECT] OPERATOR...
//
// PROJECT are the flags -name, -prefix, -source, -licenses and -python, for an operator of another repository. Such an
// operator is compiled in the workspace of its folder, if there is a go.work, and otherwise alone.
//
// An image has two layers with one file each, the certificates and the program. It has no other file and no shell. Builds
// are reproducible: the same source and the same Go give the same image, without times, owners or an order of the build
// machine.
//
// The Dockerfile of an operator builds the same image except for the certificates: they are Debian's there, and Mozilla's as
// in golang.org/x/crypto/x509roots here. A test compares the two.
//
// # Functions in Python
//
//	images build -o FOLDER -name NAME -prefix PREFIX/ -python BASE FUNCTION
//
// builds the image of a project of `homeostat new --language python`, for the architecture of this machine: Python from the
// folder BASE with the base images, homeostat-engine, the package homeostat, operator.yaml and the modules of the folder
// FUNCTION, without its tests. A function that needs other packages has its Dockerfile. The command runs in its folder of a
// checkout.
//
// # Base images
//
//	images base -o FOLDER
//
// builds images of PostgreSQL, MariaDB, nginx, Python, busybox and pause for the architecture of this machine, from packages
// of Debian 12, for nodes without a registry. It needs apt-get with current lists and dpkg-deb, and neither root permissions
// nor Docker. apt-get resolves and verifies the packages, whose scripts are not run. The folder gets an archive of each
// image and a list of them, images.json. The table is in table.go; docs/adr/0131 has the differences from the official
// images:
//
//   - There is no entry point that initializes data: a container of a database needs a command, as those of
//     operators/database have, and runs as user 999 unless the pod says otherwise.
//   - Tags that are not the beginning of Debian's version, such as postgres:16, are stand-ins because samples of the
//     operators name them. The output and the field standsFor of the list say so.
//
// The first build downloads 80 MB into the user's cache folder. An image is built again if its packages or this program have
// changed, or its archive. Builds may run concurrently.
//
// The package archive lists the archives of both kinds, and copies them with other names into an image store.
//
// # Packages
//
// The package oci does not depend on operators. tools/release uses it for the images of bundles and of the catalog.
//
// This is a module of its own, outside the workspace.
package main
