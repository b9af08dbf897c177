//go:build never

package deps

import (
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/NVIDIA/go-nvml/pkg/nvml"
	_ "github.com/goccy/go-yaml"
	_ "github.com/goccy/go-yaml/ast"
	_ "github.com/goccy/go-yaml/parser"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/google/go-github/v62/github"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/prometheus/client_model/go"
	_ "github.com/prometheus/procfs"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/getkin/kin-openapi/openapi3filter"
	_ "github.com/getkin/kin-openapi/routers/gorillamux"
	_ "github.com/sethvargo/go-githubactions"
	_ "github.com/spf13/cobra"
	_ "github.com/vbauerster/mpb/v8"
	_ "github.com/vbauerster/mpb/v8/decor"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/sync/errgroup"
	_ "gonum.org/v1/gonum/stat"
	_ "gonum.org/v1/gonum/stat/distuv"
	_ "golang.org/x/term"
	_ "golang.org/x/tools/go/packages"
)
