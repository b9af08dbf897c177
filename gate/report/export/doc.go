// Package export writes a stored run in the formats of other tools: vLLM's benchmark file, llm-d's benchmark report,
// AIPerf's request records, CSV, Parquet and HdrHistogram percentile logs.
//
// It computes nothing that the run does not say: latencies are those of [record.FiguresOf], what counts is what the judge
// lets count. Those formats know no infinity, so their latency statistics cover successes, with the number of failures
// beside them. Texts in a run are foreign; each format escapes or defuses them. The package opens no file for writing:
// the caller says where a named file goes.
package export
