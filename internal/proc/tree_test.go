package proc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func row(pid, ppid, pgid, sid int, start uint64) Process {
	return Process{ID: ID{pid, start}, PPID: ppid, PGID: pgid, SID: sid, State: 'S'}
}

func TestTreeObserve(t *testing.T) {
	leader := row(100, 50, 100, 100, 1000)
	zombie := leader
	zombie.State = 'Z'
	self := row(50, 1, 50, 50, 1000)
	tests := []struct {
		name  string
		looks [][]Process
		marks map[int]bool
		want  []int // pids that live at the last look
	}{
		{"leader alone", [][]Process{{leader}}, nil, []int{100}},
		{"group and session", [][]Process{{leader, row(101, 1, 100, 100, 1001), row(102, 1, 102, 100, 1002)}}, nil, []int{100, 101, 102}},
		{"child with a lower pid, after wrap-around", [][]Process{{row(7, 9, 7, 7, 1002), row(9, 100, 9, 9, 1001), leader}}, nil, []int{7, 9, 100}},
		{"older stranger in no group of ours", [][]Process{{leader, row(101, 100, 101, 101, 999)}}, nil, []int{100}},
		{"stranger", [][]Process{{leader, row(101, 1, 101, 101, 1001)}}, nil, []int{100}},
		{"never ourselves, never init", [][]Process{{row(1, 0, 100, 100, 1000), self, leader}}, nil, []int{100}},
		{
			"double fork seen while the parent lived",
			[][]Process{{leader, row(101, 100, 101, 101, 1001), row(102, 101, 101, 101, 1002)}, {zombie, row(102, 1, 101, 101, 1002)}},
			nil,
			[]int{102},
		},
		{
			"pid of a descendant used again by a stranger",
			[][]Process{{leader, row(102, 100, 102, 102, 1002)}, {leader, row(102, 1, 102, 102, 2000)}},
			nil,
			[]int{100},
		},
		{
			"pid of the leader used again: its new group is a stranger's",
			[][]Process{{leader}, {row(100, 1, 100, 100, 2000), row(101, 100, 100, 100, 2001)}},
			nil,
			nil,
		},
		{"group outlives its leader", [][]Process{{leader, row(101, 100, 100, 100, 1001)}, {row(101, 1, 100, 100, 1001)}}, nil, []int{101}},
		{"mark, and the child of a marked one", [][]Process{{leader, row(101, 1, 101, 101, 1001), row(102, 101, 102, 102, 1002)}}, map[int]bool{101: true}, []int{100, 101, 102}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(leader.ID, self.PID)
			var got []int
			for _, look := range tt.looks {
				got = nil
				for _, p := range tr.observe(look, func(p Process) bool { return tt.marks[p.PID] }) {
					got = append(got, p.PID)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("living (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeGivesUpAnEmptyGroup(t *testing.T) {
	tr := newTree(ID{100, 1000}, 50)
	stranger := []Process{row(101, 1, 100, 100, 2000)}
	if got := tr.observe(stranger, nil); len(got) != 1 {
		t.Errorf("a member of the group: %v", got)
	}
	tr = newTree(ID{100, 1000}, 50)
	tr.groupGone = true
	if got := tr.observe(stranger, nil); len(got) != 0 {
		t.Errorf("after the group was empty its number proves nothing: %v", got)
	}
}
