package telemetry

import "testing"

func TestQueueDropsTheOldest(t *testing.T) {
	q := newQueue()
	for i := range maxQueued + 3 {
		q.put(arrival{at: int64(i)})
	}
	<-q.ready
	lines, dropped, more := q.take()
	if len(lines) != maxQueued || dropped != 3 || lines[0].at != 3 || !more {
		t.Errorf("%d lines from %d, %d dropped, more %v", len(lines), lines[0].at, dropped, more)
	}
	if lines, dropped, _ := q.take(); len(lines) != 0 || dropped != 0 {
		t.Errorf("a second take gives %d lines and %d dropped", len(lines), dropped)
	}
}

func TestQueueTellsItsEnd(t *testing.T) {
	q := newQueue()
	q.put(arrival{at: 1})
	q.close()
	<-q.ready
	if lines, _, more := q.take(); len(lines) != 1 || more {
		t.Errorf("%d lines, more %v", len(lines), more)
	}
}
