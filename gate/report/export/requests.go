package export

import (
	"encoding/json"
	"io"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// requests writes one file per round with one line per request, in AIPerf's layout. Its metrics count from the sent
// request, as AIPerf's do; ours from the schedule stand beside them under names of their own.
func requests(r *run, create Create) error {
	for _, rd := range r.rounds {
		list, err := r.requests(rd)
		if err != nil {
			return err
		}
		err = into(create, "requests-"+roundName(rd)+".jsonl", func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			conversations := map[string]int{}
			for i := range list {
				number, seen := conversations[list[i].Conv]
				if !seen {
					number = len(conversations)
					conversations[list[i].Conv] = number
				}
				if err := enc.Encode(r.recordOf(&list[i], number)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// requestRecord is one line.
type requestRecord struct {
	Metadata requestMetadata          `json:"metadata"`
	Metrics  map[string]requestMetric `json:"metrics"`
	Error    *requestError            `json:"error"`
}

type requestMetadata struct {
	// SessionNum is the number of the conversation in the round, from 0 in order of schedule.
	SessionNum     int    `json:"session_num"`
	XRequestID     string `json:"x_request_id"`
	XCorrelationID string `json:"x_correlation_id"`
	ConversationID string `json:"conversation_id"`
	TurnIndex      int    `json:"turn_index"`
	Start          *int64 `json:"request_start_ns"`
	Ack            *int64 `json:"request_ack_ns"`
	End            *int64 `json:"request_end_ns"`
	Worker         string `json:"worker_id"`
	Processor      string `json:"record_processor_id"`
	Phase          string `json:"benchmark_phase"`
	Cancelled      bool   `json:"was_cancelled"`
	CancelledNS    *int64 `json:"cancellation_time_ns"`
}

type requestMetric struct {
	Value any    `json:"value"`
	Unit  string `json:"unit"`
}

// requestError says why a request failed. Code is the HTTP status, null when there was none or
// it promised success.
type requestError struct {
	Code    *int   `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (r *run) recordOf(q *request, conversation int) requestRecord {
	out := requestRecord{
		Metadata: requestMetadata{
			SessionNum: conversation, XRequestID: q.RequestID, XCorrelationID: q.Conv, ConversationID: q.Conv, TurnIndex: max(0, q.Turn-1),
			Start: r.wallNS(q.Wrote), Ack: r.wallNS(q.Header), End: r.wallNS(q.End), Worker: "tailgate", Processor: "tailgate",
			Phase: phase(q), Cancelled: q.Class == record.Cut,
		},
		Metrics: map[string]requestMetric{},
	}
	if out.Metadata.XRequestID == "" {
		out.Metadata.XRequestID = q.ID
	}
	if q.Class != record.OK {
		out.Error = &requestError{Type: string(q.Class), Message: q.Detail}
		if q.Status >= 300 {
			out.Error.Code = &q.Status
		}
	}
	put := func(name, unit string, v record.Value) {
		if x, ok := v.Finite(); ok {
			out.Metrics[name] = requestMetric{x, unit}
		}
	}
	count := func(name string, n *int) {
		if n != nil {
			put(name, "tokens", record.Of(float64(*n)))
		}
	}
	count("input_sequence_length", q.NIn)
	count("cached_input_tokens", q.NCached)
	count("reasoning_token_count", q.NReasoning)
	put("output_sequence_length", "tokens", q.OutTokens)
	if n, ok := q.OutTokens.Finite(); ok {
		if q.NReasoning != nil {
			n -= float64(*q.NReasoning)
		}
		put("output_token_count", "tokens", record.Of(max(0, n)))
	}
	put("time_to_first_token", "ms", q.TTFTSend)
	put("request_latency", "ms", q.E2ESend)
	put("inter_token_latency", "ms", q.TPOT)
	if len(q.EventGaps) > 0 {
		out.Metrics["inter_chunk_latency"] = requestMetric{q.EventGaps, "ms"}
		put("time_to_second_token", "ms", record.Of(q.EventGaps[0]))
	}
	put("ttft_from_schedule", "ms", q.TTFT)
	put("ttfo_from_schedule", "ms", q.TTFO)
	put("request_latency_from_schedule", "ms", q.E2E)
	put("longest_stall", "ms", q.Stall)
	if q.Pick.Reached() {
		put("pacer_lag", "ms", record.Of(float64(q.Pick-q.Sched)/1e6))
	}
	return out
}

// phase is the phase in AIPerf's words; requests after the measured interval are neither warm-up nor profiled.
func phase(q *request) string {
	switch {
	case q.counted:
		return "profiling"
	case q.Phase == record.PhaseWarmup:
		return "warmup"
	default:
		return string(record.PhaseTail)
	}
}

// wallNS is the wall time of an instant in ns since 1970; nil when it was not reached.
func (r *run) wallNS(at record.Instant) *int64 {
	if !at.Reached() {
		return nil
	}
	return new(r.wall(at).UnixNano())
}
