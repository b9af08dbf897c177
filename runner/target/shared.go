package target

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// sharedMost is how much left shared memory a remark names, nameBytes how much of a name it shows.
	sharedMost, nameBytes = 20, 80
	// sharedDir holds named shared memory and semaphores.
	sharedDir = "/dev/shm"
)

// sharedNames is what shared memory there is, by name.
func sharedNames() map[string]bool {
	names := map[string]bool{}
	entries, err := os.ReadDir(sharedDir)
	if err == nil { // without the folder there is none
		for _, e := range entries {
			names[sharedDir+"/"+e.Name()] = true
		}
	}
	for _, s := range (proc.Table{}).Segments() {
		names[segmentName(s)] = true
	}
	return names
}

func segmentName(s proc.Segment) string { return fmt.Sprintf("System V segment %d", s.ID) }

// mapped notes the shared memory that the server's living processes use: its name is known only as long as they live.
func (s *Server) mapped() map[string]bool {
	names := map[string]bool{}
	for _, p := range s.group.Living() {
		for _, path := range (proc.Table{}).Mapped(p.PID) {
			names[path] = true
		}
	}
	return names
}

// tellShared remarks on shared memory that outlived the server, was not there before the session, and is the server's by its
// mapping or its creator. It is listed, never removed: another process may use it by now.
func (s *Server) tellShared(mapped map[string]bool) {
	var left []string
	for _, path := range slices.Sorted(maps.Keys(mapped)) {
		if info, err := os.Lstat(path); err == nil && !s.spec.Ground.shared(path) {
			left = append(left, proc.Clean(path, nameBytes)+" ("+mib(info.Size())+")")
		}
	}
	ours := s.everyone()
	for _, segment := range (proc.Table{}).Segments() {
		if name := segmentName(segment); slices.Contains(ours, segment.Creator) && !s.spec.Ground.shared(name) {
			left = append(left, name+" ("+mib(segment.Bytes)+")")
		}
	}
	if len(left) == 0 {
		return
	}
	text := strings.Join(left[:min(len(left), sharedMost)], ", ")
	if more := len(left) - sharedMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	s.note("shared_memory_left", "the server left shared memory behind, which is not removed: %s", text)
}

// mib prints bytes.
func mib(b int64) string { return fmt.Sprintf("%.1f MiB", float64(b)/(1<<20)) }

// shared reports whether shared memory of this name was there before the session.
func (g *Ground) shared(name string) bool { return g != nil && g.names[name] }
