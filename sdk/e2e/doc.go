// Package e2e holds the tests of the SDK that need a real API server: one named test for each property that the SDK
// promises. It is a module of its own, so that the SDK itself depends on no sibling.
//
// A test is worth something if it fails when what it is about is broken. These were seen to, each after one line of the SDK
// was made wrong:
//
//	a property is broken by                                           and found by
//	apply.Manager.Converged always says no                              TestSteadyStateCostsNothing
//	... forgets what the fields that we own say after a restart       TestSteadyStateCostsNothing/restart_after_a_kill
//	... believes that we still own what we applied                    TestDriftIsRepairedWithOneRequest
//	... ignores the digest of the intent                              TestFieldOfAFormerVersionDisappears
//	... takes what others emptied of us for ours                      TestKindThatIsNotInstalled
//	... does not take a list that admission lengthened for ours       TestAdmissionThatRewritesAnOwnedField
//	a Go zero value becomes intent                                    TestZeroValuesAreNotIntent
//	an object without our controller reference is ours                TestSquatterIsNeverWritten
//	what somebody else controls, or what is going, is adopted         TestAdoptIsRefused
//	an object that is to be adopted is deleted                        TestAdoptNeverDeletes
//	what is made once is changed when it is adopted                   TestAdoptTakesOverWhatNobodyControls
//	... or emptied of what a former object of ours had put there      TestAdoptWhatAFormerObjectLeft
//	what is made once is made again by who does not see it yet        TestCreateOnlyChildThatIsNotSeenYet
//	children are pruned although the plan is not complete             TestChildrenAreKeptWhileThePlanIsIncomplete
//	children are not pruned                                           TestUnplannedChildrenArePruned
//	... or in the order of their names                                TestPruningIsTheReverseOfCreation
//	a child whose kind nobody watches is applied                      TestChildOfAKindThatIsNotOwnedIsRefused
//	a kind is owned twice, or by itself                               TestOwnsIsRefused
//	a child is deleted by name alone                                  TestReplacedChildIsNotDeleted
//	a refused change replaces the child, whatever was wrong with it   TestBadValueNeverDeletesTheChild
//	a refusal is remembered beyond the end of the child               TestRefusalEndsWithTheChild
//	a replacement that does not fit is refused without a way out      TestReplacementThatDoesNotFitIsExplained
//	what was abandoned is forgotten before the informer shows it      TestAbandonSendsOneRequest
//	a look at an old state is repeated at a steady pace               TestHangingWatchCausesNoFlood
//	our own writes of children are not seen before the informer's     TestReadsItsOwnWritesWhenWatchesAreLate
//	... nor those of the object itself                                TestCleanUpIsNotRepeatedWhenWatchesAreLate
//	a tracked child is applied once more to release it                TestReleaseDoesNotApplyAgain
//	... or to put its finalizer back                                  TestLostFinalizerOfATrackedChild
//	marks on a copy make it a child                                   TestRemoteSquatterIsNeverWritten
//	the parent of a remote child has no finalizer                     TestRemoteChildren
//	remote children whose parent is gone stay                         TestRemoteChildOfAnObjectThatIsGone
//	... or go although the API server has the parent                  TestRemoteChildOfAnObjectThatIsNotSeenYet
//	... or although the child was handed over since it was seen       TestKeptRemoteChildIsNotCollected
//	children of what is in no namespace are looked for in their own   TestObjectInNoNamespace
//	the finalizer is stored after the first child                     TestFinalizerIsStoredBeforeTheFirstEffect
//	a finalizer is written without the object's version               TestForeignFinalizersAreNeverLost
//	an object that was let go is cleaned up again                     TestCleanUpIsNotRepeatedWhenWatchesAreLate/only_ours
//	the status is written although it is equal                        TestStatusIsWrittenOncePerPass
//	Ready does not wait for children                                  TestReadyOnlyWhileChildrenAre
//	what the operator changes in the spec is kept                     TestSpecAndMetadataAreNeverWritten
//	the backoff does not grow                                         TestTransientFailureIsRetriedWithBackoff
//	Retry-After is ignored                                            TestRetryAfterIsHonored
//	what is invalid is tried again                                    TestInvalidIsNotRetried
//	a fight is not noticed                                            TestContendedField
//	a panic is not recovered                                          TestPanicConcernsOneObject
//	the news of a reference wake nobody                               TestReferenceIsWatched
//	the watch of a reference never ends                               TestUnusedReferenceIsNotWatchedAnyMore
//	all of a kind is watched of which metadata is asked for           TestMetadataOnly
//	a kind that is not installed is asked for only once               TestKindThatIsNotInstalled
//	... and its appearance wakes nobody                               TestInstalled
//	the operator's own kind is waited for no longer than a cache      TestOwnKindThatIsNotInstalled
//	who waits for an informer is not woken when it has caught up      TestEverythingThatCanGoWrong (LONG=1)
//	what is observed is looked for by its controller                  TestObserved
//	... or its news wakes nobody                                      TestObserved
//	a report is called before the plan was carried out                TestReport
//	OrphanChildren of a kind keeps all                                  TestChildrenOfAKindCanBeKept
//	AdoptIf adopts whatever it says                                   TestAdoptIf
//	... for an object that is deleted meanwhile, too                  TestAdoptionForNobody
//	the spec's wish for a pause is ignored                            TestPausedBySpec
//	what is retained is deleted when the plan no longer has it        TestRetainAndNoLonger
//	... or keeps a reference that somebody else applied, too          TestRetainAndNoLonger
//	... or is waited for as that of a former object                   TestRetain
//	what others add to a field that is ours whole is not noticed      TestFilled
//	... because the cache drops who added it                          TestFilled
//	what was read in full is read again in each pass                  TestFilled
//	the stand-in is sent                                              TestFilledWithSomethingElse
//	the status of what is found is news                               TestFind
//	... or its spec is none                                           TestFind
//	the failure of one child ends the pass                            TestFailureOfOneChildDoesNotStopTheOthers
//	what was not tried counts as what did not fail                    TestNothingGoesBeforeWhatReplacesIt
//	those that keep failing keep others from being written            TestChildrenThatKeepFailingComeLast
//	a pass over many children goes on until the last is written       TestVeryManyChildrenAreWrittenInTurns
//	what leaves the plan is deleted although it is to be kept         TestUnplannedChildrenCanBeKept
//	every event leads to a pass                                       TestOwnWritesCauseNoPasses
//	the cache keeps all of managedFields                              TestCacheKeepsOnlyOurManagedFields
//	the annotation for a pause is ignored                             TestPausedObjectIsLeftAlone
//	... or is told of after its end                                   TestPauseEndsDuringCleanUp
//	what is referred to counts as a child in a plan                   TestDry
//	... or a plan that a panic ended for one that does nothing        TestDryFails
//	the annotation for a dry run is ignored                           TestDryRunWritesNothing
package e2e
