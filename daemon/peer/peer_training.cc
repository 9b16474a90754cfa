#include "daemon/peer/peer_training.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using State = PeerTraining::State;
using Event = PeerTraining::Event;

constexpr PeerTraining::Transition kTransitions[] = {
    {State::kNone, Event::kGive, State::kGiven},
    {State::kGiven, Event::kGuess, State::kGuessing},
    {State::kGiven, Event::kBegin, State::kStepping},
    {State::kGiven, Event::kDrop, State::kNone},
    {State::kGuessing, Event::kBegin, State::kStepping},
    {State::kGuessing, Event::kWorkerLost, State::kGiven},
    {State::kGuessing, Event::kDrop, State::kNone},
    {State::kStepping, Event::kFinish, State::kDone},
    {State::kStepping, Event::kWorkerLost, State::kGiven},
    {State::kStepping, Event::kDrop, State::kNone},
    {State::kDone, Event::kEncode, State::kEncoding},
    // The coordinator was told of the loss, and has given the samples to other peers.
    {State::kDone, Event::kWorkerLost, State::kGiven},
    {State::kDone, Event::kDrop, State::kNone},
    {State::kEncoding, Event::kOffer, State::kNone},
    {State::kEncoding, Event::kSpoil, State::kGiven},
    {State::kEncoding, Event::kWorkerLost, State::kHandedOver},
    {State::kEncoding, Event::kDrop, State::kNone},
    {State::kHandedOver, Event::kOffer, State::kNone},
    {State::kHandedOver, Event::kSpoil, State::kGiven},
    {State::kHandedOver, Event::kDrop, State::kNone},
};

}  // namespace

absl::Span<const PeerTraining::Transition> PeerTraining::Transitions() { return kTransitions; }

const char* PeerTraining::NameOf(State state) {
  switch (state) {
    case State::kNone:
      break;
    case State::kGiven:
      return "given";
    case State::kGuessing:
      return "guessing";
    case State::kStepping:
      return "stepping";
    case State::kDone:
      return "done";
    case State::kEncoding:
      return "encoding";
    case State::kHandedOver:
      return "handed over";
  }
  return "none";
}

const char* PeerTraining::NameOf(Event event) {
  switch (event) {
    case Event::kGive:
      return "give";
    case Event::kGuess:
      return "guess";
    case Event::kBegin:
      return "begin";
    case Event::kFinish:
      return "finish";
    case Event::kEncode:
      return "encode";
    case Event::kOffer:
      return "offer";
    case Event::kSpoil:
      return "spoil";
    case Event::kWorkerLost:
      return "lose worker";
    case Event::kDrop:
      break;
  }
  return "drop";
}

std::string PeerTraining::TextOf(const Transition& transition) {
  return absl::StrCat(NameOf(transition.from), ", ", NameOf(transition.event), " -> ",
                      NameOf(transition.to));
}

bool PeerTraining::On(Event event) {
  const auto found =
      std::find_if(std::begin(kTransitions), std::end(kTransitions),
                   [&](const Transition& one) { return one.from == state_ && one.event == event; });
  if (found == std::end(kTransitions)) return false;
  log_.Debug(absl::StrCat("training ", train_.version(), ": ", TextOf(*found)));
  state_ = found->to;
  return true;
}

bool PeerTraining::begun() const {
  return state_ == State::kStepping || state_ == State::kDone || state_ == State::kEncoding ||
         state_ == State::kHandedOver;
}

bool PeerTraining::Give(const v1::Train& train) {
  if (state_ == State::kNone) train_ = train;
  return On(Event::kGive);
}

bool PeerTraining::Begin(absl::Time now) {
  if (!On(Event::kBegin)) return false;
  began_ = now;
  age_ = 0;
  missed_ = disowned_ = false;
  return true;
}

bool PeerTraining::Finish(const v1::Boundary& boundary) {
  if (boundary.version() != train_.version() || !On(Event::kFinish)) return false;
  boundary_ = boundary;
  return true;
}

std::optional<v1::Boundary> PeerTraining::Encode() {
  if (!On(Event::kEncode)) return std::nullopt;
  return boundary_;
}

bool PeerTraining::LoseWorker() {
  const bool guessing = state_ == State::kGuessing;
  if (!On(Event::kWorkerLost)) return false;
  if (guessing) ++id_;
  return true;
}

void PeerTraining::Drop() {
  On(Event::kDrop);
  age_ = 0;
  missed_ = false;
  ++id_;
}

void PeerTraining::NoteEntries(uint64_t entries) { age_ += static_cast<uint32_t>(entries); }

}  // namespace atolld
