// Package workloads holds the workloads that come with tailgate, embedded, so that the demo runs from any directory.
//
// Each folder is a workload of the native format with a NOTICE.md that names its origin and licence. They are built from
// public traces by scripts/build-workloads, and a test builds them again and compares digests.
package workloads

import "embed"

// FS holds one folder per workload: azure-conv-mini and mooncake-conv-mini.
//
//go:embed azure-conv-mini mooncake-conv-mini
var FS embed.FS
