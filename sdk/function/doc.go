// Package function runs an operator whose reconcile is a function in another language.
//
// The engine of package sdk does the work of the operator in Go: caches, server-side apply, drift, pruning, finalizers,
// conditions, retries and the status. The function is a process or a server: it is called with the observed state of one
// object as JSON ([Request]) and answers with the desired state ([Answer]). It makes no request to the API server itself.
//
// A [Config], the declaration of the operator, names its kinds. An [Operator] is the declaration with a [Transport]: a
// [Process] (JSON lines on standard input and output) or a [Server] (HTTP, also on a unix socket). It is used like an
// sdk.Operator: with program.Main, with a manager, and in tests. The program homeostat-engine is such a program.
//
// What a function does wrong concerns one object: a crash, an answer that is not JSON or too large, no answer in time, and
// answers that differ for equal requests are failures of that reconcile with a reason of their own, which are retried with
// exponential backoff. Nothing of a wrong answer is carried out.
package function
