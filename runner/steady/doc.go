// Package steady holds the warm-up rule: when has a freshly started server reached the state its users meet?
//
// The rule is declared before the run and is the same for both arms. The package is pure: windows in, a decision out. It
// imports runner/record only; who offers the traffic and cuts it into windows is the runner's affair.
package steady
