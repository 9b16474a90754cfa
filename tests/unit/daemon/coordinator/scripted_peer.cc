#include "tests/unit/daemon/coordinator/scripted_peer.h"

#include "compression/base/check.h"
#include "membership/history/header.h"
#include "membership/run/roster_news.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

constexpr absl::Duration kHeartbeat = absl::Seconds(1);

std::string StateDigest(uint64_t version) {
  return ToBytes(DigestBuilder("state").U64(version).Finish());
}

v1::Manifest MakeManifest() {
  v1::Manifest manifest;
  v1::Tensor* tensor = manifest.add_tensors();
  tensor->set_name("w");
  tensor->add_shape(3 * 4096);
  manifest.set_elements(3 * 4096);
  return manifest;
}

}  // namespace

ScriptedPeer::ScriptedPeer(Env env, std::string id, std::string coordinator)
    : env_(env), id_(std::move(id)), coordinator_(std::move(coordinator)) {
  auto listening = env_.transport.Listen(
      id_ + ":1", guard_.Wrap([this](const std::string&, std::unique_ptr<Call> call) {
        call->Start({});
        call->Finish(absl::UnimplementedError("scripted"));
        accepted_.push_back(std::move(call));
      }));
  CHECK_OK(listening.status());
  listener_ = std::move(*listening);
  Dial();
}

void ScriptedPeer::Dial() {
  call_ =
      env_.transport.Dial(coordinator_, "/atolld.v1.Membership/Session", absl::InfiniteDuration());
  Call* const call = call_.get();
  call_->Start({guard_.Wrap([this](const Frame& frame) {
                  v1::CoordinatorMessage message;
                  CHECK_OK(Unpack(frame, &message));
                  OnMessage(message);
                  call_->Read();
                }),
                nullptr, guard_.Wrap([this](const absl::Status& status) {
                  closed.push_back(status);
                  if (sealed || drained || absl::IsFailedPrecondition(status) ||
                      absl::IsPermissionDenied(status)) {
                    return;
                  }
                  env_.executor.RunAfter(absl::Milliseconds(200), guard_.Wrap([this] { Dial(); }));
                })});
  call->Read();
  v1::PeerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_peer(id_);
  hello->set_address(id_ + ":1");
  hello->set_numerics(1);
  hello->set_pid(1);
  hello->set_epoch(epoch_);
  hello->set_epoch_proof(epoch_proof_);
  if (holds_state) {
    hello->set_run_id(genesis_->spec().run_id());
    hello->set_has_state(true);
    hello->set_version(version);
    hello->set_header_digest(header_digest_);
    if (!headers.empty()) *hello->mutable_header() = headers.back();
  }
  for (const v1::SampleRange& range : samples_) *hello->add_samples() = range;
  Say(message);
  Beat(call);
}

void ScriptedPeer::Beat(const Call* call) {
  if (call_.get() != call) return;
  v1::PeerMessage heartbeat;
  heartbeat.mutable_heartbeat()->mutable_progress()->set_phase("training");
  Say(heartbeat);
  env_.executor.RunAfter(kHeartbeat, guard_.Wrap([this, call] { Beat(call); }));
}

void ScriptedPeer::Forge(const SigningKey& key) {
  v1::EntryHeader header = headers.back();
  header.set_version(++version);
  header.set_base_version(version - 1);
  header.set_previous_header_digest(header_digest_);
  header.set_previous_state_digest(StateDigest(version - 1));
  header.mutable_contributors(0)->set_tokens(1);
  for (v1::Contributor& contributor : *header.mutable_contributors()) {
    contributor.clear_samples();
  }
  header.set_signature(SignHeader(key, header));
  header_digest_ = ToBytes(HeaderDigest(header));
  headers.push_back(header);
  samples_.clear();
}

void ScriptedPeer::Say(const v1::PeerMessage& message) { call_->Write(Pack(message)); }

void ScriptedPeer::OnMessage(const v1::CoordinatorMessage& message) {
  if (message.has_roster()) roster = message.roster();
  if (message.has_roster_delta()) CHECK_OK(Follow(message.roster_delta(), &roster));
  const bool of_roster = message.has_roster() || message.has_roster_delta();
  if (!message.has_heartbeat() && !of_roster) heard.push_back(message);
  v1::PeerMessage answer;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::CoordinatorMessage::kMakeInitialState: {
      v1::Genesis* genesis = answer.mutable_initial_state()->mutable_genesis();
      *genesis->mutable_spec() = heard.front().welcome().spec();
      genesis->mutable_spec()->mutable_data()->set_digest(std::string(32, 'd'));
      *genesis->mutable_manifest() = MakeManifest();
      genesis->set_state_digest(StateDigest(0));
      return Say(answer);
    }
    case v1::CoordinatorMessage::kTrain:
      return OnTrain(message.train());
    case v1::CoordinatorMessage::kPlan:
      return OnPlan(message.plan());
    case v1::CoordinatorMessage::kCommit: {
      const v1::EntryHeader& header = message.commit().header();
      if (header.version() != version + 1) return;
      headers.push_back(header);
      CHECK_OK(CheckHeader(*genesis_, version, *DigestFromBytes(header_digest_), header));
      version = header.version();
      header_digest_ = ToBytes(HeaderDigest(header));
      samples_.clear();
      ready_ = false;
      SaySynced();
      answer.mutable_state_report()->set_version(version);
      answer.mutable_state_report()->set_state_digest(StateDigest(version));
      return Say(answer);
    }
    case v1::CoordinatorMessage::kEvaluate:
      answer.mutable_evaluated()->set_version(message.evaluate().version());
      answer.mutable_evaluated()->set_share(message.evaluate().share());
      answer.mutable_evaluated()->set_shares(message.evaluate().shares());
      answer.mutable_evaluated()->set_loss_sum(20);
      answer.mutable_evaluated()->set_tokens(10);
      return Say(answer);
    case v1::CoordinatorMessage::kHeartbeat:
      if (waits.empty() || waits.back() != message.heartbeat().waiting_for()) {
        waits.push_back(message.heartbeat().waiting_for());
      }
      return;
    case v1::CoordinatorMessage::kDrain:
      drained = true;
      answer.mutable_leaving()->set_reason("drained");
      return Say(answer);
    case v1::CoordinatorMessage::kSendHeaders:
      return SayHeaders(message.send_headers());
    case v1::CoordinatorMessage::kSealed:
      sealed = true;
      answer.mutable_leaving();
      return Say(answer);
    default:
      return;
  }
}

void ScriptedPeer::OnWelcome(const v1::Welcome& welcome) {
  epoch_ = welcome.epoch();
  epoch_proof_ = welcome.epoch_proof();
  v1::PeerMessage worker;
  *worker.mutable_worker_ready()->mutable_manifest() = MakeManifest();
  worker.mutable_worker_ready()->set_data_digest(std::string(32, 'd'));
  Say(worker);
  if (!welcome.has_genesis()) return;
  if (!holds_state ||
      version < welcome.version()) {  // fetched from others, as far as this script cares
    genesis_ = welcome.genesis();
    holds_state = true;
    version = welcome.version();
    header_digest_ =
        ToBytes(version == 0 ? GenesisDigest(*genesis_) : HeaderDigest(welcome.header()));
  }
  SaySynced();
  if (ready_) SayReady();
}

void ScriptedPeer::SayHeaders(const v1::SendHeaders& asked) {
  v1::PeerMessage message;
  v1::Headers* answer = message.mutable_headers();
  if (asked.genesis()) *answer->mutable_genesis() = *genesis_;
  for (const v1::EntryHeader& header : headers) {
    if (header.version() < asked.first_version()) continue;
    if (answer->headers_size() < 2) *answer->add_headers() = header;  // so that it takes several
  }
  Say(message);
}

void ScriptedPeer::SaySynced() {
  v1::PeerMessage message;
  message.mutable_synced()->set_version(version);
  message.mutable_synced()->set_header_digest(header_digest_);
  if (!headers.empty()) *message.mutable_synced()->mutable_header() = headers.back();
  Say(message);
}

void ScriptedPeer::OnTrain(const v1::Train& train) {
  samples_.assign(train.samples().begin(), train.samples().end());
  ready_ = false;
  if (!trains) return;
  env_.executor.RunAfter(absl::Seconds(2), guard_.Wrap([this] {
    ready_ = true;
    SayReady();
  }));
}

void ScriptedPeer::SayReady() {
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_version(version + 1);
  ready->set_base_version(version);
  ready->set_epoch(epoch_);
  ready->set_steps(5);
  ready->set_tokens(100);
  ready->set_loss(2);
  ready->set_contribution_root(std::string(32, 'r'));
  ready->set_state_digest(StateDigest(version));
  for (const v1::SampleRange& range : samples_) *ready->add_samples() = range;
  Say(message);
}

void ScriptedPeer::OnPlan(const v1::Plan& plan) {
  v1::PeerMessage message;
  v1::Vote* vote = message.mutable_vote();
  vote->set_version(plan.version());
  vote->set_epoch(plan.epoch());
  vote->set_revision(plan.revision());
  vote->set_payload_digest(
      ToBytes(DigestBuilder("payload").U64(plan.version()).U64(plan.revision()).Finish()));
  vote->set_state_digest(StateDigest(plan.version() - 1));
  uint32_t bits = 0;
  for (int i = 0; i < plan.contributors_size(); ++i) {
    bool lost = false;
    for (const std::string& peer : plan.lost()) lost = lost || peer == plan.contributors(i).peer();
    if (!lost) bits |= 1u << i;
  }
  *vote->mutable_records() = RecordsOf(plan, std::string(1, static_cast<char>(bits)));
  Say(message);
}

}  // namespace atolld
