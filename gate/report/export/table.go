package export

import (
	"encoding/csv"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/parquet-go/parquet-go"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// row is one request as CSV and Parquet have it; the tags are the columns' names, in order. A nil is a value that was not
// measured: an empty cell, a null.
type row struct {
	Run  string `parquet:"run,dict"`
	Slot int64  `parquet:"slot"`
	Arm  string `parquet:"arm,dict"`
	// Void is the rule for which the round does not count; empty when it does.
	Void string `parquet:"void,dict"`
	// Counted is true for a request of the measured interval.
	Counted bool   `parquet:"counted"`
	Seq     int64  `parquet:"seq"`
	ID      string `parquet:"id"`
	Conv    string `parquet:"conv"`
	Turn    int64  `parquet:"turn"`
	Phase   string `parquet:"phase,dict"`
	Class   string `parquet:"class,dict"`
	Detail  string `parquet:"detail"`
	Status  *int64 `parquet:"status,optional"`
	// Flags are separated by spaces.
	Flags     string `parquet:"flags,dict"`
	RequestID string `parquet:"request_id"`

	TTFT     *float64 `parquet:"ttft_ms,optional"`
	TTFTSend *float64 `parquet:"ttft_send_ms,optional"`
	TTFO     *float64 `parquet:"ttfo_ms,optional"`
	E2E      *float64 `parquet:"e2e_ms,optional"`
	E2ESend  *float64 `parquet:"e2e_send_ms,optional"`
	TPOT     *float64 `parquet:"tpot_ms,optional"`
	Stall    *float64 `parquet:"stall_ms,optional"`
	Stalls   int64    `parquet:"stalls"`

	InPlanned  int64  `parquet:"in_planned"`
	OutPlanned int64  `parquet:"out_planned"`
	NIn        *int64 `parquet:"n_in,optional"`
	NCached    *int64 `parquet:"n_cached,optional"`
	NOut       *int64 `parquet:"n_out,optional"`
	NReasoning *int64 `parquet:"n_reasoning,optional"`
	TokensFrom string `parquet:"tokens_from,dict"`
	Finish     string `parquet:"finish,dict"`

	Events        int64 `parquet:"events"`
	PayloadEvents int64 `parquet:"payload_events"`
	Reads         int64 `parquet:"reads"`
	BytesIn       int64 `parquet:"bytes_in"`
	BytesOut      int64 `parquet:"bytes_out"`

	Sched    *int64 `parquet:"sched_ns,optional"`
	Pick     *int64 `parquet:"pick_ns,optional"`
	SlotAt   *int64 `parquet:"slot_ns,optional"`
	Conn     *int64 `parquet:"conn_ns,optional"`
	Wrote    *int64 `parquet:"wrote_ns,optional"`
	Header   *int64 `parquet:"header_ns,optional"`
	First    *int64 `parquet:"first_ns,optional"`
	FirstOut *int64 `parquet:"first_out_ns,optional"`
	Last     *int64 `parquet:"last_ns,optional"`
	End      *int64 `parquet:"end_ns,optional"`

	Reused       bool   `parquet:"reused"`
	DialNS       int64  `parquet:"dial_ns"`
	TLSNS        int64  `parquet:"tls_ns"`
	ServerQueue  *int64 `parquet:"server_queue_ns,optional"`
	ServerPrompt *int64 `parquet:"server_prompt_ns,optional"`
	ServerDecode *int64 `parquet:"server_decode_ns,optional"`
	ServerLoad   *int64 `parquet:"server_load_ns,optional"`
	BodySHA      string `parquet:"body_sha"`
	TextSHA      string `parquet:"text_sha"`
}

// Columns are the names of the table's columns, in order.
func Columns() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[row]()) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		names = append(names, name)
	}
	return names
}

func (r *run) row(rd *record.Round, q *request) row {
	out := row{
		Run: r.ID, Slot: int64(rd.Slot), Arm: string(rd.Arm), Void: r.void[rd.Slot].Rule, Counted: q.counted,
		Seq: int64(q.Seq), ID: q.ID, Conv: q.Conv, Turn: int64(q.Turn), Phase: string(q.Phase), Class: string(q.Class), Detail: q.Detail,
		Flags: strings.Join(q.Flags, " "), RequestID: q.RequestID,
		TTFT: number(q.TTFT), TTFTSend: number(q.TTFTSend), TTFO: number(q.TTFO), E2E: number(q.E2E), E2ESend: number(q.E2ESend),
		TPOT: number(q.TPOT), Stall: number(q.Stall), Stalls: int64(q.Stalls),
		InPlanned: int64(q.InPlanned), OutPlanned: int64(q.OutPlanned), NIn: wide(q.NIn), NCached: wide(q.NCached), NOut: wide(q.NOut),
		NReasoning: wide(q.NReasoning), TokensFrom: string(q.TokensFrom), Finish: q.Finish,
		Events: int64(q.Events), PayloadEvents: int64(q.PayloadEvents), Reads: int64(q.Reads), BytesIn: q.BytesIn, BytesOut: q.BytesOut,
		Sched: at(q.Sched), Pick: at(q.Pick), SlotAt: at(q.Slot), Conn: at(q.Conn), Wrote: at(q.Wrote), Header: at(q.Header),
		First: at(q.First), FirstOut: at(q.FirstOut), Last: at(q.Last), End: at(q.End),
		Reused: q.Reused, DialNS: q.DialNS, TLSNS: q.TLSNS,
		ServerQueue: q.Server.Queue, ServerPrompt: q.Server.Prompt, ServerDecode: q.Server.Decode, ServerLoad: q.Server.Load,
		BodySHA: q.BodySHA, TextSHA: q.TextSHA,
	}
	if q.Status != 0 {
		out.Status = new(int64(q.Status))
	}
	return out
}

func number(v record.Value) *float64 {
	if x, ok := v.Finite(); ok {
		return &x
	}
	return nil
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

func at(i record.Instant) *int64 {
	if !i.Reached() {
		return nil
	}
	return new(int64(i))
}

// rows hands every request of every round measured whole to put, round by round, in order of schedule.
func (r *run) rows(put func(row) error) error {
	for _, rd := range r.rounds {
		list, err := r.requests(rd)
		if err != nil {
			return err
		}
		for i := range list {
			if err := put(r.row(rd, &list[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

func parquetTable(r *run, create Create) error {
	return into(create, "requests.parquet", func(w io.Writer) error {
		out := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("tailgate", r.Tailgate.Version, r.Tailgate.Commit))
		if err := r.rows(func(q row) error { _, err := out.Write([]row{q}); return err }); err != nil {
			return err
		}
		return out.Close()
	})
}

func csvTable(r *run, create Create) error {
	return into(create, "requests.csv", func(w io.Writer) error {
		out := csv.NewWriter(w)
		if err := out.Write(Columns()); err != nil {
			return err
		}
		if err := r.rows(func(q row) error { return out.Write(cells(reflect.ValueOf(q))) }); err != nil {
			return err
		}
		out.Flush()
		return out.Error()
	})
}

// cells are a row as text.
func cells(q reflect.Value) []string {
	list := make([]string, q.NumField())
	for i := range list {
		f := q.Field(i)
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				continue
			}
			f = f.Elem()
		}
		switch v := f.Interface().(type) {
		case string:
			list[i] = defused(v)
		case bool:
			list[i] = strconv.FormatBool(v)
		case int64:
			list[i] = strconv.FormatInt(v, 10)
		case float64:
			list[i] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return list
}

// defused is a text that no spreadsheet takes for a formula: one that begins like a formula gets an apostrophe before it,
// and control characters, which some programs skip before they look, become spaces.
func defused(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	if begin := strings.TrimLeft(s, " "); begin != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]) {
		return "'" + s
	}
	return s
}
