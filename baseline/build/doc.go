// Package build turns two git refs and a build command into two builds, each with a digest.
//
// [Resolve] makes commits of refs once; from there on only commits are used. [AddWorktree] checks a commit out beside the
// user's own tree, [Run] builds it there and digests what came out, [ArmDigest] says whether two arms would start the
// same server. It runs git and the user's build command with an environment of its own, writes worktrees and build logs,
// and never touches the user's index, branches or working tree.
//
// Blame is in the type of an error: a [UsageError] is what the user wrote (exit 2), a [FailedError] is what the commit
// did; any other error is the machine's.
package build
