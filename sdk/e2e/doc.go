// Package e2e tests the SDK on a real API server: one named test for each property that the SDK promises. It is a module of
// its own, so that the SDK depends on no sibling module.
//
// A test has value only if it fails when its property is broken. Each row was verified by a change of one line of the SDK:
//
//	a mutation of the SDK                                        fails the test
//	apply.FieldManager.Converged always returns false                 TestIdleOperatorSendsNoRequests
//	... ignores values of owned fields after a restart           TestIdleOperatorSendsNoRequests/restart_after_a_kill
//	... assumes that applied fields are still owned              TestDriftIsRepairedWithOneRequest
//	... ignores the digest of the intent                         TestFieldOfPreviousVersionIsRemoved
//	... accepts a field that another manager has emptied         TestKindThatIsNotInstalled
//	... rejects an owned list that admission has lengthened      TestAdmissionThatRewritesAnOwnedField
//	a Go zero value becomes part of the intent                   TestZeroValuesAreNotIntent
//	an object without our controller reference is written        TestForeignObjectIsNeverWritten
//	a controlled or terminating object is adopted                TestAdoptIsRejected
//	an object to adopt is deleted                                TestAdoptNeverDeletes
//	a create-only child changes when it is adopted               TestAdoptUncontrolledObject
//	... or loses fields that its predecessor's operator applied  TestAdoptChildOfPredecessor
//	a create-only child that the cache lacks is overwritten      TestCreateOnlyChildNotInCache
//	children are pruned although the plan is incomplete          TestChildrenAreKeptWhileThePlanIsIncomplete
//	children are not pruned                                      TestUnplannedChildrenArePruned
//	... or are pruned in the order of their names                TestPruningIsTheReverseOfCreation
//	a child of an unwatched kind is applied                      TestChildOfUnlistedKindIsRejected
//	Owns accepts duplicates, or the operator's own kind          TestInvalidOwnsIsRejected
//	a child is deleted by name alone                             TestReplacedChildIsNotDeleted
//	any rejected change recreates the child                      TestBadValueNeverDeletesTheChild
//	a rejection is remembered after the child's deletion         TestRejectionIsForgottenWithTheChild
//	a replacement over quota is rejected without a remedy        TestReplacementOverQuotaIsExplained
//	a forced deletion is forgotten before the informer has it    TestForceDeleteSendsOneRequest
//	the failure of a read after a conflict counts as stale       TestMissingGetAfterSpecChangeIsReported
//	... or that of a repair of a known child                     TestFailedRepairsAreReported
//	the failure of pruning is only logged                        TestFailedPruningIsReported
//	a clean-up that stays stale says nothing                     TestStaleCleanUpIsReported
//	a stale child hides the rejection of another one             TestRejectionBesideStaleChild
//	the namespace of a cluster-scoped object's child is left out TestNamesOfChildrenOfClusterScopedObject
//	a reconcile of a stale cache is retried without backoff      TestHangingWatchBacksOff
//	writes of children are not visible before their events       TestReadYourWritesWhenWatchesLag
//	... nor writes of the object itself                          TestCleanUpIsNotRepeatedWhenWatchesLag
//	a tracked child is applied once more to release it           TestReleaseDoesNotApplyAgain
//	... or to restore its finalizer                              TestLostFinalizerOfATrackedChild
//	a copied owner label makes an object a child                 TestForeignObjectInOtherNamespace
//	the parent of a cross-namespace child has no finalizer       TestCrossNamespaceChildren
//	a finalizer of a cross-namespace child holds up the parent   TestCrossNamespaceChildren
//	cross-namespace children of a deleted parent stay            TestCrossNamespaceChildOfDeletedParent
//	... or are deleted although the API server has the parent    TestCrossNamespaceChildOfUncachedParent
//	... or although the child was orphaned meanwhile             TestOrphanedCrossNamespaceChildIsNotCollected
//	children of a cluster-scoped object are not found            TestClusterScopedObject
//	the finalizer is stored after the first child                TestFinalizerIsStoredBeforeTheFirstChild
//	finalizers are written without a resourceVersion             TestForeignFinalizersAreNeverLost
//	clean-up runs again after the finalizer was removed          TestCleanUpIsNotRepeatedWhenWatchesLag/only_ours
//	an equal status is written                                   TestStatusIsWrittenOncePerPass
//	a rollout or a suspension is reported as a warning           TestRoutineEventsAreNormal
//	Ready does not wait for children                             TestReadyOnlyWhileChildrenAreReady
//	changes of Reconcile to the spec are written                 TestSpecAndMetadataAreNeverWritten
//	the backoff does not grow                                    TestTransientFailureIsRetriedWithBackoff
//	Retry-After is ignored                                       TestRetryAfterIsHonored
//	an invalid object is retried                                 TestInvalidIsNotRetried
//	contention is not detected                                   TestContendedField
//	... if a child is deleted again and again                    TestChildIsDeletedAgainAndAgain
//	... or is remembered after the child has left the plan       TestRetriesEndWithTheChild
//	a panic is not recovered                                     TestPanicAffectsOneObject
//	events of a reference enqueue no object                      TestReferenceIsWatched
//	the watch of an unused reference never ends                  TestWatchOfUnusedReferenceEnds
//	a metadata-only kind is watched in full                      TestMetadataOnly
//	a kind that is not installed is looked up only once          TestKindThatIsNotInstalled
//	... and its installation enqueues no object                  TestInstalled
//	the own kind is awaited only until the cache sync timeout    TestOwnKindThatIsNotInstalled
//	a reconcile that waits for an informer is not requeued       TestFaults (LONG=1)
//	the cache reduces a child like a foreign object              TestReducedObjectIsAdopted
//	an observed kind is selected by its controller               TestObserved
//	... or its events enqueue no object                          TestObserved
//	report functions run before the plan was executed            TestReport
//	OrphanChildren of one kind orphans all children              TestOrphanChildrenOfOneKind
//	AdoptIf adopts every object                                  TestAdoptIf
//	... also for a parent that was deleted meanwhile             TestNoAdoptionForDeletedParent
//	the spec's request for a pause is ignored                    TestPausedBySpec
//	a retained child is deleted when the plan lacks it           TestRetainIsRevoked
//	... or keeps a reference that another manager applied too    TestRetainIsRevoked
//	... or is waited for as a predecessor's child                TestRetain
//	foreign entries of an exclusive map are not detected         TestContentFrom
//	... because the cache drops their field managers             TestContentFrom
//	content that the operator does not tolerate stays            TestForeignContentIsRemoved
//	... or is removed again in each reconcile                    TestForeignContentOfAdmissionIsKept
//	full content is read again in each reconcile                 TestContentFrom
//	the placeholder of late content is sent                      TestStaleContentIsRetried
//	a status change of a found object triggers a reconcile       TestFind
//	... or a spec change triggers none                           TestFind
//	a failed child ends the reconcile                            TestFailedChildDoesNotBlockSiblings
//	an untried write counts as a success                         TestReplacementPrecedesPruning
//	failing children delay the writes of others                  TestFailingChildrenAreWrittenLast
//	one reconcile writes any number of children                  TestWriteBudget
//	unplanned children are deleted in spite of OrphanChildren    TestOrphanUnplannedChildren
//	every event leads to a reconcile                             TestOwnWritesCauseNoReconcile
//	the cache keeps all of managedFields                         TestCacheKeepsOnlyOurManagedFields
//	the pause annotation is ignored                              TestPausedObjectIsNotReconciled
//	... or its condition stays after the pause                   TestPauseEndsDuringCleanUp
//	a referenced object counts as a child in a plan              TestDry
//	... or a plan that panicked counts as an empty plan          TestDryFails
//	the dry-run annotation is ignored                            TestDryRunWritesNothing
package e2e
