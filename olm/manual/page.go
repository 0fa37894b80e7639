package manual

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Commands returns the commands in a section of a Markdown file, without those of its subsections. The section is given by
// its heading. A command is the text after "$ " in a block of type console, and continues on the next line after a
// backslash. Blocks of other types are not run.
func Commands(file, section string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the manual: %w", err)
	}
	var commands []string
	var block string // the opening fence
	found, inside, more := false, false, false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			if more {
				return nil, errors.New("a command ends in a backslash: " + commands[len(commands)-1])
			}
			if block == "" {
				block = line
			} else {
				block = ""
			}
		case block == "" && strings.HasPrefix(line, "##"):
			inside = strings.TrimLeft(line, "#") == " "+section
			found = found || inside
		case !inside || block != "```console":
		case more:
			commands[len(commands)-1] += "\n" + line
			more = strings.HasSuffix(line, `\`)
		case isCommand:
			commands = append(commands, command)
			more = strings.HasSuffix(line, `\`)
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("%s has no section %q", file, section)
	case len(commands) == 0:
		return nil, fmt.Errorf("section %q of %s has no commands", section, file)
	}
	return commands, nil
}
