// Package referee is a second replay engine, slow and plain: maps, one access at a
// time, every order sorted from its definition. It shares nothing with the fast
// engine but the trace reader, and is what that engine is tested against.
package referee
