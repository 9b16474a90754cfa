// PeerTraining: the training that the coordinator has given to this peer and that no update has
// answered yet.
//
// It is one of the two state machines of a peer's round (docs/architecture.md, "The machine of a
// training"). A training may run while the peer offers its previous update. Law: the state changes
// only by Transitions(). An event that the table does not list for the present state changes
// nothing. Each transition is logged at level debug. Used on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"

namespace atolld {

class PeerTraining {
 public:
  enum class State {
    kNone,      // The peer has nothing to train.
    kGiven,     // The training waits for a worker and for the replica's state.
    kGuessing,  // The state from which the worker begins is being guessed (mode "eager").
    kStepping,  // The worker does the inner steps.
    // The steps are done. The update waits in its slot until the previous update is settled.
    kDone,
    kEncoding,  // The update is being read from the slot.
    // As kEncoding, but the worker that made the update is gone.
    kHandedOver,
  };
  enum class Event {
    kGive,        // The coordinator has sent a Train.
    kGuess,       // The guess has been requested.
    kBegin,       // The worker has been told to train.
    kFinish,      // The worker has reached the boundary.
    kEncode,      // The slot may be read.
    kOffer,       // The update was encoded, and the peer holds it.
    kSpoil,       // No update can be made from the values in the slot.
    kWorkerLost,  // The worker has died, or the machine's owner has stopped it.
    kDrop,        // The training is dropped; another one may follow.
  };
  struct Transition {
    State from;
    Event event;
    State to;
  };

  // Returns all transitions, in the order of docs/architecture.md.
  static absl::Span<const Transition> Transitions();
  static const char* NameOf(State state);
  static const char* NameOf(Event event);
  // Returns a text such as "given, begin -> stepping", which follows "training VERSION: " in the
  // log.
  static std::string TextOf(const Transition& transition);

  explicit PeerTraining(Log& log) : log_(log) {}  // `log` must outlive this object.

  State state() const { return state_; }
  bool given() const { return state_ != State::kNone; }
  // True from the first step until the update is held.
  bool begun() const;
  // True if the training has begun and its worker is still there.
  bool has_worker() const { return begun() && state_ != State::kHandedOver; }
  // True while the worker trains and while its update is being encoded, which other code need not
  // distinguish.
  bool stepping() const { return state_ == State::kStepping || state_ == State::kEncoding; }
  // Changes with each Drop and with each guess that is given up, so that an answer that is not
  // awaited any more is recognised as such.
  uint64_t id() const { return id_; }
  const v1::Train& train() const { return train_; }  // The newest Train that was given.

  // Each of these functions applies its event. It returns false, and changes nothing, if the table
  // lists no such transition.
  bool Give(const v1::Train& train);
  bool Guess() { return On(Event::kGuess); }
  bool Begin(absl::Time now);
  // Returns false also if the Boundary belongs to another training.
  bool Finish(const v1::Boundary& boundary);
  std::optional<v1::Boundary> Encode();  // Returns nullopt in place of false.
  bool Offer() { return On(Event::kOffer); }
  bool Spoil() { return On(Event::kSpoil); }
  bool LoseWorker();
  void Drop();

  // Called when `entries` entries were committed while the training runs.
  void NoteEntries(uint64_t entries);
  void SetMissed(bool missed) { missed_ = missed; }
  // Called when what the worker is learning must not be offered. It is trained anew at its
  // boundary.
  void Disown() { disowned_ = true; }
  bool disowned() const { return disowned_; }
  // The number of entries that were committed since the training began. A mode that merges each
  // entry does not count them.
  uint32_t age() const { return age_; }
  bool missed() const { return missed_; }
  absl::Time began() const { return began_; }

 private:
  bool On(Event event);

  Log& log_;
  State state_ = State::kNone;
  uint64_t id_ = 0;
  v1::Train train_;
  v1::Boundary boundary_;
  absl::Time began_;
  uint32_t age_ = 0;
  bool missed_ = false;
  bool disowned_ = false;
};

}  // namespace atolld
