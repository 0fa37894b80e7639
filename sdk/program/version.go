package program

import (
	"cmp"
	"runtime/debug"
)

// linkedVersion is set by the linker in reproducible builds.
var linkedVersion string

// version returns the version of the module and, in a build from a checkout, its revision: "v1.2.3 (4f921db)".
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "(unknown)"
	}
	built := map[string]string{}
	for _, setting := range info.Settings {
		built[setting.Key] = setting.Value
	}
	v := cmp.Or(linkedVersion, info.Main.Version, "(devel)")
	switch revision := built["vcs.revision"]; {
	case revision == "":
		return v
	case built["vcs.modified"] == "true":
		return v + " (" + revision + ", modified)"
	default:
		return v + " (" + revision + ")"
	}
}
