package main

import "github.com/spf13/cobra"

func (a *app) actionCommand() *cobra.Command { return &cobra.Command{Use: "action"} }
