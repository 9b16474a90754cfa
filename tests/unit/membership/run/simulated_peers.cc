#include "tests/unit/membership/run/simulated_peers.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "gtest/gtest.h"
#include "membership/run/roster_news.h"
#include "membership/trust/contribution.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

std::string DigestText(const std::string& of) {
  std::string digest = of;
  digest.resize(32, '.');
  return digest;
}

v1::Manifest MakeManifest() {
  v1::Manifest manifest;
  v1::Tensor* tensor = manifest.add_tensors();
  tensor->set_name("w");
  tensor->add_shape(12 * 4096);
  manifest.set_elements(12 * 4096);
  return manifest;
}

}  // namespace

SimulatedPeers::SimulatedPeers(uint32_t peers, uint32_t quorum, uint64_t rounds,
                               uint32_t every_rounds) {
  settings.round = {peers, quorum};
  settings.failure_timeout = absl::Seconds(10);
  settings.header_digest = [](const v1::EntryHeader& header) {
    return DigestText("header " + std::to_string(header.version()) + header.outer_rule());
  };
  settings.genesis_digest = [](const v1::Genesis& genesis) {
    return DigestText("genesis " + genesis.state_digest().substr(0, 4));
  };
  settings.check_header = [](const v1::Genesis&, uint64_t version, const std::string& previous,
                             const v1::EntryHeader& header) {
    return header.version() == version + 1 && header.previous_header_digest() == previous
               ? absl::OkStatus()
               : absl::FailedPreconditionError("the chain is broken");
  };
  v1::RunSpec spec;
  spec.set_run_id("r1");
  spec.set_numerics(1);
  spec.set_rounds(rounds);
  spec.mutable_inner()->set_steps(5);
  spec.mutable_inner()->set_batch(2);
  spec.mutable_exchange()->set_chunk_elements(4096);
  spec.mutable_exchange()->set_codec("int8");
  spec.mutable_evaluation()->set_every_rounds(every_rounds);
  stored.spec = spec;
  stored.epoch = 1;
  run = std::make_unique<Run>(settings, stored, now);
}

v1::Hello SimulatedPeers::MakeHello(const std::string& peer) const {
  v1::Hello hello;
  hello.set_peer(peer);
  hello.set_address(peer + ":1");
  hello.set_numerics(1);
  hello.set_pid(7);
  const auto key = keys.find(peer);
  if (key != keys.end()) hello.set_signing_key(key->second.public_key());
  return hello;
}

void SimulatedPeers::Join(const std::string& peer, const v1::Hello* hello) {
  sessions[peer] = ++last_session_;
  Take(run->OnHello(now, last_session_, hello != nullptr ? *hello : MakeHello(peer)));
}

void SimulatedPeers::Say(const std::string& peer, const v1::PeerMessage& message) {
  Take(run->OnMessage(now, sessions.at(peer), message));
}

void SimulatedPeers::WorkerReady(const std::string& peer) {
  v1::PeerMessage message;
  *message.mutable_worker_ready()->mutable_manifest() = MakeManifest();
  message.mutable_worker_ready()->set_data_digest(DigestText("data"));
  Say(peer, message);
}

void SimulatedPeers::JoinAndWork(const std::string& peer) {
  Join(peer);
  WorkerReady(peer);
}

void SimulatedPeers::InitialState(const std::string& peer) {
  v1::PeerMessage message;
  v1::Genesis* genesis = message.mutable_initial_state()->mutable_genesis();
  *genesis->mutable_spec() = run->Status(now).spec();
  const bool is_private = genesis->spec().data().private_();
  if (!is_private) genesis->mutable_spec()->mutable_data()->set_digest(DigestText("data"));
  *genesis->mutable_manifest() = MakeManifest();
  genesis->set_state_digest(DigestText("state 0"));
  Say(peer, message);
}

void SimulatedPeers::Synced(const std::string& peer, uint64_t version) {
  v1::PeerMessage message;
  message.mutable_synced()->set_version(version);
  message.mutable_synced()->set_header_digest(
      version == 0 ? settings.genesis_digest(*stored.genesis)
                   : DigestText("header " + std::to_string(version)));
  Say(peer, message);
}

void SimulatedPeers::Ready(const std::string& peer, uint32_t age) {
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_version(run->version() + 1);
  ready->set_base_version(run->version() - missed[peer]);
  ready->set_epoch(stored.epoch);
  ready->set_age(age);
  ready->set_steps(5);
  ready->set_tokens(100);
  ready->set_train_seconds(train_seconds[peer]);
  ready->set_waited_seconds(waited_seconds[peer]);
  ready->set_loss(losses.count(peer) > 0 ? losses[peer] : 2.5);
  // Of an update that is to be masked nothing is told yet.
  const bool masked = stored.spec->privacy().masked();
  if (!masked) ready->set_contribution_root(DigestText("root"));
  ready->set_state_digest(DigestText("state " + std::to_string(run->version())));
  const auto told = norms.find(peer);
  const double norm = masked ? 0 : told == norms.end() ? 1 : told->second;
  ready->set_squared_norm_bits(absl::bit_cast<uint64_t>(norm * norm));
  uint64_t trained = 0;
  for (const v1::SampleRange& range : samples[peer]) {
    *ready->add_samples() = range;
    trained += range.count();
  }
  if (trained > 0) ready->set_steps(static_cast<uint32_t>(trained / stored.spec->inner().batch()));
  ready->set_train_number(trains[peer]);
  ready->set_slow_codec(says_slow.count(peer) > 0 ||
                        (Train(peer) != nullptr && Train(peer)->slow_codec()));
  const auto key = keys.find(peer);
  if (key != keys.end() && !masked) SignContribution(key->second, "r1", peer, ready);
  Say(peer, message);
}

void SimulatedPeers::Vote(const std::string& peer, char payload) {
  const v1::Plan& plan = *WholePlan(peer);
  v1::PeerMessage message;
  v1::Vote* vote = message.mutable_vote();
  vote->set_version(plan.version());
  vote->set_epoch(plan.epoch());
  vote->set_revision(plan.revision());
  vote->set_payload_digest(std::string(32, payload));
  vote->set_state_digest(DigestText("state " + std::to_string(plan.version() - 1)));
  int bits = (1 << plan.contributors_size()) - 1;
  for (int i = 0; i < plan.contributors_size(); ++i) {
    for (const std::string& lost : plan.lost())
      bits &= plan.contributors(i).peer() == lost ? ~(1 << i) : ~0;
  }
  *vote->mutable_records() = RecordsOf(plan, std::string(1, static_cast<char>(bits)));
  if (arrivals) *vote->mutable_arrivals() = *arrivals;
  vote->set_squared_mean_bits(absl::bit_cast<uint64_t>(squared_means[peer]));
  Say(peer, message);
}

void SimulatedPeers::Evaluate(const std::string& peer) {
  const auto sent = inbox[peer];
  for (const v1::CoordinatorMessage& asked : sent) {
    if (!asked.has_evaluate()) continue;
    v1::PeerMessage message;
    message.mutable_evaluated()->set_version(asked.evaluate().version());
    message.mutable_evaluated()->set_share(asked.evaluate().share());
    message.mutable_evaluated()->set_shares(asked.evaluate().shares());
    message.mutable_evaluated()->set_loss_sum(3.0 * static_cast<double>(held_out));
    message.mutable_evaluated()->set_tokens(held_out);
    if (asked.evaluate().own()) {
      v1::OwnLoss* const own = message.mutable_evaluated()->mutable_own();
      for (const double loss : own_losses[peer]) own->add_losses(loss);
    }
    Say(peer, message);
  }
}

void SimulatedPeers::Report(const std::string& peer, char digest) {
  v1::PeerMessage message;
  message.mutable_state_report()->set_version(run->version());
  message.mutable_state_report()->set_state_digest(std::string(32, digest));
  Say(peer, message);
}

void SimulatedPeers::Leave(const std::string& peer) {
  v1::PeerMessage message;
  message.mutable_leaving();
  Say(peer, message);
}

void SimulatedPeers::Break(const std::string& peer) {
  const SessionId session = sessions.at(peer);
  sessions.erase(peer);
  Take(run->OnBroken(now, session));
}

void SimulatedPeers::Refused(const std::string& peer) { Probed(peer, ProbeResult::kRefused); }

void SimulatedPeers::Probed(const std::string& peer, ProbeResult result,
                            const std::string& address) {
  Take(run->OnProbed(now, {peer, address}, result));
}

void SimulatedPeers::Die(const std::string& peer) {
  Break(peer);
  Refused(peer);
}

void SimulatedPeers::Tick(absl::Duration passed) {
  const absl::Time end = now + passed;
  for (;;) {
    v1::PeerMessage heartbeat;
    heartbeat.mutable_heartbeat();
    for (const auto& [peer, session] : std::map<std::string, SessionId>(sessions))
      Say(peer, heartbeat);
    Take(run->OnTick(now));
    if (now >= end) return;
    now = std::min(end, now + absl::Seconds(1));
  }
}

void SimulatedPeers::Restart() {
  sessions.clear();
  inbox.clear();
  ++stored.epoch;
  StoredRun read = stored;
  read.headers.clear();
  for (const v1::EntryHeader& header : stored.headers) {
    if (header.version() == stored.checkpoint.version) read.newest = header;
    if (header.version() > stored.checkpoint.version) read.headers.push_back(header);
  }
  run = std::make_unique<Run>(settings, read, now);
}

void SimulatedPeers::Restart(const StoredRun& older) {
  stored = older;
  Restart();
}

absl::Status SimulatedPeers::Order(RunOrder::Verb verb, const std::string& peer,
                                   const std::string& reason) {
  absl::StatusOr<RunOutput> output = run->OnOrder(now, {verb, peer, reason});
  if (!output.ok()) return output.status();
  notice = output->notice;
  Take(*std::move(output));
  return absl::OkStatus();
}

v1::Hello SimulatedPeers::Returning(const std::string& peer, const v1::EntryHeader* header) const {
  v1::Hello hello = MakeHello(peer);
  hello.set_run_id("r1");
  hello.set_has_state(true);
  hello.set_version(header == nullptr ? 0 : header->version());
  hello.set_header_digest(header == nullptr ? DigestText("genesis stat")
                                            : settings.header_digest(*header));
  return hello;
}

void SimulatedPeers::ComeBack(const std::vector<std::string>& names) {
  const auto held = samples;
  for (const std::string& peer : names) {
    v1::Hello hello = Returning(peer, stored.headers.empty() ? nullptr : &stored.headers.back());
    const auto it = held.find(peer);
    if (it != held.end()) *hello.mutable_samples() = {it->second.begin(), it->second.end()};
    hello.set_training(training.count(peer) > 0);
    Join(peer, &hello);
    WorkerReady(peer);
  }
}

void SimulatedPeers::TakeAhead(const std::string& peer) {
  const auto found = ahead.find(peer);
  if (found == ahead.end()) return;
  trains[peer] = found->second.number();
  samples[peer].assign(found->second.samples().begin(), found->second.samples().end());
  if (stored.spec->data().private_()) training.insert(peer);
  ahead.erase(found);
}

void SimulatedPeers::TellHeaders(const std::string& peer,
                                 const std::vector<v1::EntryHeader>& history, size_t most) {
  const v1::SendHeaders asked = *Asked(peer);
  v1::PeerMessage message;
  v1::Headers* headers = message.mutable_headers();
  if (asked.genesis()) *headers->mutable_genesis() = recorded_genesis;
  for (const v1::EntryHeader& header : history) {
    if (header.version() < asked.first_version()) continue;
    if (static_cast<size_t>(headers->headers_size()) < most) *headers->add_headers() = header;
  }
  Say(peer, message);
}

void SimulatedPeers::Begin(const std::vector<std::string>& names) {
  for (const std::string& peer : names) JoinAndWork(peer);
  InitialState(names.front());
  for (const std::string& peer : names) Synced(peer, 0);
  for (const std::string& peer : names) Evaluate(peer);
}

void SimulatedPeers::Commit(const std::vector<std::string>& names) {
  for (const std::string& peer : names) Ready(peer);
  for (const std::string& peer : names) Vote(peer);
}

const v1::Train* SimulatedPeers::Train(const std::string& peer) const {
  const auto* message = Last(peer, &v1::CoordinatorMessage::has_train);
  return message == nullptr ? nullptr : &message->train();
}

const v1::Plan* SimulatedPeers::WholePlan(const std::string& peer) const {
  const v1::Plan* const told = Plan(peer);
  if (told == nullptr || !IsBrief(*told)) return told;
  for (const auto& [other, heard] : inbox) {
    const v1::Plan* const plan = Plan(other);
    if (plan != nullptr && !IsBrief(*plan) && plan->version() == told->version() &&
        plan->epoch() == told->epoch() && plan->revision() == told->revision()) {
      return plan;
    }
  }
  return told;
}

const v1::Plan* SimulatedPeers::Plan(const std::string& peer) const {
  const auto* message = Last(peer, &v1::CoordinatorMessage::has_plan);
  return message == nullptr ? nullptr : &message->plan();
}

const v1::Commit* SimulatedPeers::Committed(const std::string& peer) const {
  const auto* message = Last(peer, &v1::CoordinatorMessage::has_commit);
  return message == nullptr ? nullptr : &message->commit();
}

bool SimulatedPeers::Said(const std::string& text) const {
  return std::any_of(events.begin(), events.end(), [&](const std::string& event) {
    return event.find(text) != std::string::npos;
  });
}

const v1::SendHeaders* SimulatedPeers::Asked(const std::string& peer) const {
  const auto* message = Last(peer, &v1::CoordinatorMessage::has_send_headers);
  return message == nullptr ? nullptr : &message->send_headers();
}

std::string SimulatedPeers::StateOf(const std::string& peer) const {
  const v1::RunStatus status = run->Status(now);
  for (const v1::PeerStatus& other : status.peers()) {
    if (other.member().peer() == peer) return other.member().state();
  }
  return "";
}

void SimulatedPeers::Take(RunOutput output) {
  Store(output.update);
  for (const RunOutput::Send& send : output.sends) {
    for (const auto& [peer, session] : sessions) {
      if (session != send.session) continue;
      const v1::CoordinatorMessage& message = *send.message;
      inbox[peer].push_back(message);
      if (message.has_roster()) rosters[peer] = message.roster();
      if (message.has_roster_delta()) {
        EXPECT_EQ(Follow(message.roster_delta(), &rosters[peer]), absl::OkStatus()) << peer;
      }
      for (const auto& one : message.commit().header().contributors()) {
        if (one.peer() != peer) continue;
        training.erase(peer);
        TakeAhead(peer);
      }
      if (!message.has_train()) continue;
      if (message.train().ahead()) {
        const auto before = ahead.find(peer);
        if (before != ahead.end() && before->second.version() < message.train().version()) {
          TakeAhead(peer);  // its update was dropped
        }
        ahead[peer] = message.train();
        continue;
      }
      ahead.erase(peer);
      trains[peer] = message.train().number();
      if (stored.spec->data().private_()) training.insert(peer);
      samples[peer].assign(message.train().samples().begin(), message.train().samples().end());
    }
  }
  for (const RunOutput::End& end : output.ends) ended[end.session] = end.status;
  for (const RunOutput::Probe& probe : output.probes) probes.push_back(probe.peer);
  for (const RunOutput::Event& event : output.events) events.push_back(event.line);
  evicted.insert(evicted.end(), output.evicted.begin(), output.evicted.end());
  finished = finished || output.finished;
}

void SimulatedPeers::Store(const RunUpdate& update) {
  if (update.spec) stored.spec = update.spec;
  if (update.epoch) stored.epoch = *update.epoch;
  stored.started = stored.started || update.started;
  if (update.genesis) stored.genesis = update.genesis;
  if (update.genesis) recorded_genesis = *update.genesis;
  if (update.control) stored.control = *update.control;
  if (update.gap) stored.gaps.push_back(*update.gap);
  for (const auto& header : update.headers) stored.headers.push_back(header);
  if (update.checkpoint) Renew(*update.checkpoint, &stored.checkpoint);
  if (update.leases) stored.leases = *update.leases;
  leases_stored += update.leases ? 1 : 0;
  for (const MemberRecord& member : update.members) {
    const auto it =
        std::find_if(stored.members.begin(), stored.members.end(),
                     [&](const MemberRecord& other) { return other.peer == member.peer; });
    if (it == stored.members.end()) {
      stored.members.push_back(member);
    } else {
      *it = member;
    }
  }
  for (const std::string& peer : update.forgotten) {
    stored.members.erase(
        std::remove_if(stored.members.begin(), stored.members.end(),
                       [&](const MemberRecord& member) { return member.peer == peer; }),
        stored.members.end());
  }
  for (const auto& round : update.rounds) stored.rounds.push_back(round);
  for (const auto& evaluation : update.evaluations) stored.evaluations.push_back(evaluation);
  if (update.judged) stored.judged = *update.judged;
  if (update.seal) stored.seal = update.seal;
}

void SimulatedPeers::JoinDialingOut(const std::string& peer) {
  v1::Hello hello = MakeHello(peer);
  hello.clear_address();
  Join(peer, &hello);
  WorkerReady(peer);
}

std::vector<std::string> ContributorsOf(const v1::EntryHeader& header) {
  std::vector<std::string> names;
  for (const auto& contributor : header.contributors()) names.push_back(contributor.peer());
  return names;
}

}  // namespace atolld
