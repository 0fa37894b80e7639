// Package life decides when the pod of an ImmortalContainer should exist, and keeps the account of the pods that did.
//
// It is pure logic: [Next] gets the object as it is stored, the pod as it is observed and the time, writes the status
// and returns a [Step]. It makes no request, so every kind of death can be tested as a line in a table, and calling it
// again with the same input gives the same status. What the pod looks like is in internal/desired; carrying out the
// step is the SDK's business.
//
// Its caller has to keep two promises, on which the account rests. A pod with [Step.Counted] false must not be able to
// vanish from the API server (the SDK's Tracked does that with a finalizer). And the status of a pass must be stored,
// with an optimistic lock, before the pod that the pass wants gone is deleted.
package life
