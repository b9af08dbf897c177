package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// clientHost says where and as what this process runs. The set of cores is read anew each time: somebody may move us.
func clientHost() record.ClientHost {
	cores := affinity()
	h := record.ClientHost{
		Cores: ranges(cores), Count: runtime.GOMAXPROCS(0), Governor: governor("/sys", cores), SHA256: ownDigest(),
		RTT: record.NA("no connection was dialled"),
	}
	if len(cores) > 0 {
		h.Count = min(h.Count, len(cores))
	}
	return h
}

// affinity lists the cores that this process may run on; none when the kernel does not tell.
func affinity() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil
	}
	var cores []int
	for i, left := 0, set.Count(); left > 0 && i < len(set)*64; i++ {
		if set.IsSet(i) {
			cores = append(cores, i)
			left--
		}
	}
	return cores
}

// ranges writes sorted numbers as the kernel does: "0-3,8".
func ranges(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d", list[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}

// governor is the frequency governor of some cores: one word when they agree, else the words joined by a comma.
func governor(sys string, cores []int) string {
	var words []string
	for _, core := range cores {
		text, err := os.ReadFile(fmt.Sprintf("%s/devices/system/cpu/cpu%d/cpufreq/scaling_governor", sys, core))
		if err == nil {
			words = append(words, strings.TrimSpace(string(text)))
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

// ownDigest is over the program file that this process runs, read once; empty when it cannot be read.
var ownDigest = sync.OnceValue(func() string { return digestOf("/proc/self/exe") })

func digestOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// pacing says by what right the pacer sleeps and wakes: what a claim of this process obtains.
func pacing() string {
	t := pace.Claim()
	defer t.Release()
	return t.Privilege()
}
