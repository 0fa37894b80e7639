package testkit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// A logLine is one line of an operator's log.
type logLine struct {
	bad  bool
	text string // a single line
	more string // further fields as "key=value", possibly of several lines
}

// testLog forwards an operator's log to its test. After close it drops lines: the testing package panics if a test logs
// after its end.
type testLog struct {
	queue *queue // observes all lines, also those that are not forwarded

	mu     sync.Mutex
	to     func(logLine)
	closed bool
}

func (l *testLog) logger() logr.Logger { return logr.New(&logSink{log: l}) }

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *testLog) write(line logLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.to(line)
	}
}

// logSink is the logr.LogSink of an operator. It drops debug messages, as a production logger does. Those about reconciles
// are evaluated.
type logSink struct {
	log    *testLog
	name   string
	values []any
}

// constantKeys are keys that controller-runtime adds to each line, with values that are constant within a test.
var constantKeys = []string{"controllerGroup", "controllerKind", "namespace", "reconcileID"}

func (*logSink) Init(logr.RuntimeInfo) {}

func (*logSink) Enabled(level int) bool { return level <= 0 || level == queueLevel }

func (s *logSink) Info(level int, message string, values ...any) {
	if level > 0 {
		s.log.queue.observe(message, s.values)
		return
	}
	s.log.write(logLine{text: s.named(message), more: s.pairs(values)})
}

func (s *logSink) Error(err error, message string, values ...any) {
	s.log.queue.observe(message, s.values)
	if err != nil {
		message = fmt.Sprintf("%s: %v", message, err)
	}
	s.log.write(logLine{bad: true, text: s.named(message), more: s.pairs(values)})
}

func (s *logSink) named(message string) string {
	if s.name == "" {
		return message
	}
	return s.name + ": " + message
}

func (s *logSink) pairs(more []any) string {
	all := slices.Concat(s.values, more)
	var b strings.Builder
	for i := 0; i+1 < len(all); i += 2 {
		key := fmt.Sprint(all[i])
		if slices.Contains(constantKeys, key) || isObject(key, s.values, i) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%v", key, all[i+1])
	}
	return b.String()
}

// isObject reports whether the key is the kind, under which controller-runtime logs the object a second time.
func isObject(key string, values []any, at int) bool {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "controllerKind" && values[i+1] == key {
			return at < len(values)
		}
	}
	return false
}

func (s *logSink) WithValues(values ...any) logr.LogSink {
	next := *s
	next.values = slices.Concat(s.values, values)
	return &next
}

func (s *logSink) WithName(name string) logr.LogSink {
	next := *s
	next.name = strings.Trim(s.name+"."+name, ".")
	return &next
}
