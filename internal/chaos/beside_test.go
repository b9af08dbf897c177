package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBesideRunsSoManyAtOnce(t *testing.T) {
	for _, c := range []struct{ count, jobs, most int }{{5, 1, 1}, {5, 2, 2}, {5, 5, 5}, {3, 8, 3}, {1, 2, 1}} {
		t.Run(fmt.Sprintf("%d of %d", c.jobs, c.count), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				session := func(_ context.Context, n int) (Outcome, error) {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					time.Sleep(time.Duration(10-n) * time.Second) // the first ends last
					return Outcome{At: time.Duration(n)}, nil
				}
				var seen []int
				var inside atomic.Int64
				err := beside(t.Context(), c.count, c.jobs, session, func(n int, o Outcome) {
					if inside.Add(1) > 1 {
						t.Error("two outcomes at once")
					}
					defer inside.Add(-1)
					time.Sleep(time.Second)
					if o.At != time.Duration(n) {
						t.Errorf("session %d got the outcome of %d", n, o.At)
					}
					seen = append(seen, n)
				})
				if err != nil || most.Load() != int64(c.most) {
					t.Errorf("%d at once, %v; want %d", most.Load(), err, c.most)
				}
				if c.jobs == 1 && !slices.IsSorted(seen) {
					t.Errorf("one at a time, in the order %v", seen)
				}
				slices.Sort(seen)
				if len(slices.Compact(seen)) != c.count {
					t.Errorf("ended: %v, want %d", seen, c.count)
				}
			})
		})
	}
}

func TestBesideStopsTheRest(t *testing.T) {
	interrupted, broken := errors.New("interrupt signal received"), errors.New("no git")
	alive := &aliveError{living: []string{"42 (server)"}}
	for name, c := range map[string]struct {
		// first is what the first session returns after a second, nil when somebody interrupts all of them then; rest is what the others
		// return, who go on until they are told.
		first, rest error
		want        []string
	}{
		"a fixture breaks":            {broken, interrupted, []string{"session 1: no git"}},
		"somebody interrupts":         {nil, interrupted, []string{interrupted.Error()}},
		"somebody cannot be killed":   {nil, errors.Join(interrupted, alive), []string{"session 1: ", "session 2: ", "alive after 5s of SIGKILL: 42 (server)"}},
		"both, and the first is told": {broken, alive, []string{"session 1: no git", "session 2: alive after"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, interrupt := context.WithCancelCause(t.Context())
				var began, over atomic.Int64
				session := func(ctx context.Context, n int) (Outcome, error) {
					began.Add(1)
					defer over.Add(1)
					if n == 0 {
						time.Sleep(time.Second)
						if c.first != nil {
							return Outcome{}, c.first
						}
						interrupt(interrupted)
					}
					<-ctx.Done()
					time.Sleep(time.Minute) // it takes its servers with it
					return Outcome{Wrong: []string{"cut short"}}, c.rest
				}
				err := beside(ctx, 9, 2, session, func(n int, o Outcome) { t.Errorf("session %d counts: %v", n+1, o) })
				if err == nil {
					t.Fatal("no error")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %q, want %q in it", err, want)
					}
				}
				if began.Load() != 2 || over.Load() != 2 {
					t.Errorf("%d began, %d were waited for, want 2", began.Load(), over.Load())
				}
			})
		})
	}
}

// What a session does must not depend on how many run beside it.
func TestSessionDependsOnItsNumber(t *testing.T) {
	c := &Chaos{Scratch: "/scratch", Seed: 3, Kinds: []Kind{Interrupt, Kill}}
	type fate struct {
		o    Outcome
		deaf bool
	}
	fates := func(numbers ...int) map[int]string {
		list := map[int]string{}
		for _, n := range numbers {
			s, deaf := c.session(n)
			list[n] = fmt.Sprintf("%+v", fate{s.Outcome, deaf})
		}
		return list
	}
	forth, back := fates(0, 1, 2, 3), fates(3, 2, 1, 0)
	for n, want := range forth {
		if back[n] != want {
			t.Errorf("session %d: %s, in another order %s", n, want, back[n])
		}
	}
	if forth[0] == forth[2] {
		t.Errorf("sessions 1 and 3 are the same: %s", forth[0])
	}
	paths := map[string]int{}
	for n := range 3 {
		s, _ := c.session(n)
		for _, path := range append([]string{s.Folder, s.repo, s.out, s.temp, s.tmp}, s.env...) {
			if other, shared := paths[path]; shared && strings.Contains(path, c.Scratch) {
				t.Errorf("sessions %d and %d share %s", other+1, n+1, path)
			}
			paths[path] = n
		}
	}
}
