//go:build !linux

package simserver

import "net"

func stampArrivals(net.Listener) {}

func newReceiver(c net.Conn, clk clock) receiver { return reads{conn: c, clock: clk} }
