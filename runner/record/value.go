package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// NotMeasured is the reason that the zero [Value] carries.
const NotMeasured = "not measured"

// Value is a number, or the reason why there is none. Its zero value is n/a with reason [NotMeasured]; it is never 0 by
// accident. A value may be +Inf: a percentile that lies among failed requests. Value is immutable and safe to share.
type Value struct {
	number  float64
	present bool
	reason  string
	// floor is what an infinite value is known to exceed, in the value's unit; 0 when nothing is known.
	floor float64
}

// Of returns a present value. A NaN or -Inf becomes n/a ("not a number"): such a number never compares as anything.
func Of(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, -1) {
		return NA("not a number")
	}
	return Value{number: x, present: true}
}

// Failed returns +Inf: the percentile lies among failed requests, which have no latency.
func Failed() Value { return Value{number: math.Inf(1), present: true} }

// FailedBeyond is [Failed] for a percentile whose failed requests all ran into a limit of ours: whatever they would have
// taken, it is at least floor, in the value's unit. It compares and judges as +Inf; reports print ">= floor". A floor that
// is not positive and finite is none.
func FailedBeyond(floor float64) Value {
	v := Failed()
	if floor > 0 && !math.IsInf(floor, 1) {
		v.floor = floor
	}
	return v
}

// NA returns a missing value with its reason. An empty reason becomes [NotMeasured].
func NA(reason string) Value {
	if reason == "" {
		reason = NotMeasured
	}
	return Value{reason: reason}
}

// Get returns the number and whether there is one. The number may be +Inf.
func (v Value) Get() (float64, bool) { return v.number, v.present }

// Finite returns the number and whether it is present and finite.
func (v Value) Finite() (float64, bool) {
	return v.number, v.present && !math.IsInf(v.number, 0)
}

// IsFailed reports whether the value is +Inf.
func (v Value) IsFailed() bool { return v.present && math.IsInf(v.number, 1) }

// AtLeast returns what an infinite value is known to exceed. False for a finite or missing value, and for an infinite one
// of which nothing is known.
func (v Value) AtLeast() (float64, bool) { return v.floor, v.IsFailed() && v.floor > 0 }

// Reason says why the value is missing; empty when it is present.
func (v Value) Reason() string {
	if v.present {
		return ""
	}
	if v.reason == "" {
		return NotMeasured
	}
	return v.reason
}

// Equal reports whether two values hold the same number or the same reason. It lets go-cmp compare values.
func (v Value) Equal(o Value) bool {
	return v.present == o.present && v.number == o.number && v.floor == o.floor && v.Reason() == o.Reason()
}

// wireValue is the JSON of a [Value]: JSON has neither NaN nor Inf.
type wireValue struct {
	Value    *float64 `json:"value"`
	Reason   string   `json:"reason,omitempty"`
	Infinite bool     `json:"infinite,omitempty"`
	AtLeast  float64  `json:"at_least,omitempty"`
}

func (v Value) wire() wireValue {
	switch {
	case v.IsFailed():
		return wireValue{Reason: "failed", Infinite: true, AtLeast: v.floor}
	case v.present:
		return wireValue{Value: &v.number}
	default:
		return wireValue{Reason: v.Reason()}
	}
}

func (w wireValue) value() (Value, error) {
	switch {
	case w.Infinite && w.Value != nil:
		return Value{}, errors.New("a value cannot be infinite and finite at once")
	case w.Infinite:
		return FailedBeyond(w.AtLeast), nil
	case w.Value != nil:
		return Of(*w.Value), nil
	default:
		return NA(w.Reason), nil
	}
}

// MarshalJSON writes {"value": 1.5}, {"value": null, "reason": "…"} or, for +Inf, a null with "infinite": true.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.wire()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(b []byte) error {
	var w wireValue
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	var err error
	*v, err = w.value()
	return err
}

// Metric is one number of one round: a [Value] with its unit and the count of samples behind it.
type Metric struct {
	Value
	// Unit is "ms", "tok/s", "req/s" or "fraction" (0.001 is 0.1 %).
	Unit string
	// N is the number of samples the value was taken from: requests, or token gaps for inter-token latency.
	N int
}

// Equal reports whether two metrics agree in value, unit and count.
func (m Metric) Equal(o Metric) bool {
	return m.Value.Equal(o.Value) && m.Unit == o.Unit && m.N == o.N
}

type wireMetric struct {
	wireValue
	Unit string `json:"unit"`
	N    int    `json:"n"`
}

// MarshalJSON writes the value's fields with unit and n beside them.
func (m Metric) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireMetric{m.wire(), m.Unit, m.N})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Metric) UnmarshalJSON(b []byte) error {
	var w wireMetric
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("metric: %w", err)
	}
	v, err := w.value()
	*m = Metric{Value: v, Unit: w.Unit, N: w.N}
	return err
}
