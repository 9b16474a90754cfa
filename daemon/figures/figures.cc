#include "daemon/figures/figures.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "compression/base/check.h"
#include "compression/base/number_words.h"
#include "membership/run/losses.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
using Maybe = std::optional<double>;

// The sources of figures.
constexpr char kHeaders[] = "the signed headers";
constexpr char kConfig[] = "the run's recorded spec";
constexpr char kGenesis[] = "version 0";
constexpr char kCoordinator[] = "the coordinator's own count or clock";
constexpr char kPeers[] = "what peers tell of themselves";
constexpr char kWorkers[] = "what workers tell of their data";
constexpr char kPlanner[] = "the planner's prediction";
constexpr char kNoise[] = "the norms of peers' updates";
constexpr char kAccountant[] = "the privacy accountant";

Maybe Count(uint64_t value) { return static_cast<double>(value); }

// Returns nothing for 0, which means unknown here: no value of this kind is 0.
template <typename T>
Maybe NotZero(T value) {
  if (value == 0) return std::nullopt;
  return static_cast<double>(value);
}

// Otherwise a run's folder gives the status, which knows less.
bool FromCoordinator(const v1::RunStatus& run) { return run.epoch() > 0; }
// Private data belong to their owners: they are neither leased nor counted.
bool HasData(const v1::RunStatus& run) {
  return (FromCoordinator(run) || run.has_data()) && !run.spec().data().private_();
}

// Returns true if the coordinator has led the exchange of the round; for an adopted round only the
// header is known.
bool Seen(const v1::RoundRecord& round) {
  return round.revisions() > 0 || round.exchange_seconds() > 0;
}

bool Estimated(const v1::RoundRecord& round) {
  return round.squared_gradient() != 0 || round.gradient_noise() != 0;
}

Maybe OfParties(const v1::EvaluationRecord& one, double loss) {
  return one.own_parties() > 0 ? Maybe(loss) : std::nullopt;
}

// Returns true if the peer is on the coordinator's roster; less is known of one that only a folder
// names.
bool Listed(const v1::PeerStatus& peer) {
  const absl::string_view state = peer.member().state();
  return !state.empty() && state != "running" && state != "ended" && state != "gone";
}

Maybe WhereListed(const v1::PeerStatus& peer, uint64_t count) {
  return Listed(peer) ? Count(count) : std::nullopt;
}

template <typename Of, typename T>
Maybe WhereTold(const Of& of, T value) {
  return TrainedShare(of.utilisation()) ? Maybe(static_cast<double>(value)) : std::nullopt;
}

// A daemon that reports about itself says what it does.
template <typename T>
Maybe WhereTold(const v1::PeerProgress& progress, T value) {
  return progress.phase().empty() ? std::nullopt : Maybe(static_cast<double>(value));
}

constexpr Figure<v1::RunStatus> kRunFigures[] = {
    {"/version", nullptr, "atoll_run_version", "version", FigureForm::kWhole,
     "Newest committed version of the model", kHeaders, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.version()); }},
    {"/spec/rounds", nullptr, "atoll_run_rounds", nullptr, FigureForm::kWhole,
     "Versions to commit before the run is sealed", kConfig, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.spec().rounds()); }},
    {"/parameters", nullptr, "atoll_run_parameters", "parameters", FigureForm::kWhole,
     "Parameters of the model", kGenesis, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.parameters()); }},
    {"/tokens", nullptr, "atoll_run_tokens_total", "tokens", FigureForm::kWhole,
     "Training tokens in committed rounds", kHeaders, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.tokens()); }},
    {"/elapsed_seconds", nullptr, "atoll_run_elapsed_seconds", "elapsed", FigureForm::kReal,
     "Time since the first round began", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe {
       return FromCoordinator(run) ? run.elapsed_seconds() : NotZero(run.elapsed_seconds());
     }},
    {"/epoch", nullptr, "atoll_run_epoch", nullptr, FigureForm::kWhole,
     "Epoch of the coordinator: one more with each of its starts", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.epoch()); }},
    {"/epoch_seconds", nullptr, nullptr, "coordinator epoch", FigureForm::kReal,
     "How long this epoch has lasted", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe {
       return FromCoordinator(run) ? Maybe(run.epoch_seconds()) : std::nullopt;
     }},
    {"/rounds_recorded", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Rounds that can be asked for", kCoordinator, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.rounds_recorded()); }},
    {"/data/samples_a_pass", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Samples in one pass over the training data", kWorkers, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.data().samples_a_pass()); }},
    {"/data/spent", nullptr, nullptr, "data", FigureForm::kWhole,
     "Samples that committed rounds were trained on", kHeaders, false,
     [](const v1::RunStatus& run) -> Maybe {
       return HasData(run) ? Count(run.data().spent()) : std::nullopt;
     }},
    {"/data/held", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Samples that are leased to peers", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe {
       return FromCoordinator(run) && HasData(run) ? Count(run.data().held()) : std::nullopt;
     }},
    {"/data/returned", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Samples that are leased again before fresh ones", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe {
       return FromCoordinator(run) && HasData(run) ? Count(run.data().returned()) : std::nullopt;
     }},
    {"/data/next", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "The first sample that was never leased", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe {
       return FromCoordinator(run) && HasData(run) ? Count(run.data().next()) : std::nullopt;
     }},
    {"/noise/tokens", nullptr, "atoll_run_noise_scale_tokens", "gradient noise scale",
     FigureForm::kReal, "Gradient noise scale", kNoise, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.noise().tokens()); }},
    {"/noise/rounds", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Rounds that the gradient noise scale comes from", kNoise, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.noise().rounds()); }},
    {"/noise/round_tokens", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Tokens of the newest of those rounds", kNoise, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.noise().round_tokens()); }},
    {"/unix_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "The coordinator's clock when it told this, Unix time", kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.unix_seconds()); }},
    {"/predicted_end_unix_seconds", nullptr, "atoll_run_predicted_end_timestamp_seconds", nullptr,
     FigureForm::kReal, "When it will be sealed at the pace of recent rounds, Unix time",
     kCoordinator, false,
     [](const v1::RunStatus& run) -> Maybe { return NotZero(run.predicted_end_unix_seconds()); }},
    {nullptr, nullptr, "atoll_run_paused", nullptr, FigureForm::kWhole,
     "1 while an operator has paused it", kCoordinator, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.paused() ? 1 : 0); }},
    {nullptr, nullptr, "atoll_run_waiting", nullptr, FigureForm::kWhole,
     "1 while it waits for something", kCoordinator, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.phase() == "waiting" ? 1 : 0); }},
    {nullptr, nullptr, "atoll_run_sealed", nullptr, FigureForm::kWhole, "1 once it is sealed",
     kHeaders, true,
     [](const v1::RunStatus& run) -> Maybe { return Count(run.has_seal() ? 1 : 0); }},
};

constexpr Figure<v1::RoundRecord> kRoundFigures[] = {
    {"/version", "version", nullptr, "round", FigureForm::kWhole, "Version that the round made",
     kHeaders, true, [](const v1::RoundRecord& round) -> Maybe { return Count(round.version()); }},
    {"/elapsed_seconds", "time/elapsed_seconds", nullptr, nullptr, FigureForm::kReal,
     "Time of the run when the version was committed", kCoordinator, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.elapsed_seconds()); }},
    {"/train_loss", "train/loss", "atoll_run_train_loss", "training loss", FigureForm::kReal,
     "Mean training loss of the newest round", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.train_loss()); }},
    {"/tokens", "train/tokens", nullptr, nullptr, FigureForm::kWhole,
     "Training tokens of the round", kHeaders, true,
     [](const v1::RoundRecord& round) -> Maybe { return Count(round.tokens()); }},
    {"/contributors", "train/contributors", "atoll_run_round_contributors", nullptr,
     FigureForm::kWhole, "Peers whose updates count in the newest round", kHeaders, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.contributors()); }},
    {"/parties", "train/parties", "atoll_run_round_parties", nullptr, FigureForm::kWhole,
     "Parties behind the peers of the newest round", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.parties()); }},
    {"/train_seconds", "time/train_seconds", "atoll_run_round_train_seconds", nullptr,
     FigureForm::kReal, "Inner steps of the newest round, mean of its peers", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.train_seconds()); }},
    {"/exchange_seconds", "time/exchange_seconds", "atoll_run_round_exchange_seconds", "exchange",
     FigureForm::kReal, "Exchange of the newest round", kCoordinator, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.exchange_seconds()); }},
    {"/predicted_seconds", "time/predicted_seconds", "atoll_run_round_predicted_seconds", nullptr,
     FigureForm::kReal, "What that exchange was predicted to take", kPlanner, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.predicted_seconds()); }},
    {"/audit_seconds", "time/audit_seconds", "atoll_run_round_audit_seconds", nullptr,
     FigureForm::kReal, "Audit of the newest round", kCoordinator, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return Seen(round) ? Maybe(round.audit_seconds()) : std::nullopt;
     }},
    {"/utilisation/compute_utilization", "time/compute_utilization",
     "atoll_run_round_utilisation_ratio", "utilisation", FigureForm::kReal,
     "Share of its peers' time that was inner steps, of the newest round", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return round.has_utilisation() ? TrainedShare(round.utilisation()) : std::nullopt;
     }},
    {"/utilisation/train_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Time of its peers in inner steps", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return WhereTold(round, round.utilisation().train_seconds());
     }},
    {"/utilisation/waited_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Time of its peers outside inner steps", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return WhereTold(round, round.utilisation().waited_seconds());
     }},
    {"/utilisation/hidden_bytes", "exchange/hidden_bytes", "atoll_run_round_hidden_bytes", nullptr,
     FigureForm::kWhole,
     "Bytes of the exchange before the newest round's that passed while workers trained", kPeers,
     false,
     [](const v1::RoundRecord& round) -> Maybe {
       return WhereTold(round, round.utilisation().hidden_bytes());
     }},
    {"/utilisation/waited_bytes", "exchange/waited_bytes", "atoll_run_round_waited_bytes", nullptr,
     FigureForm::kWhole, "The same while workers waited", kPeers, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return WhereTold(round, round.utilisation().waited_bytes());
     }},
    {"/revisions", "exchange/revisions", nullptr, nullptr, FigureForm::kWhole,
     "Plans that its exchange had", kCoordinator, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.revisions()); }},
    {"/squared_gradient", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Estimate of the update's squared norm without noise", kNoise, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return Estimated(round) ? Maybe(round.squared_gradient()) : std::nullopt;
     }},
    {"/gradient_noise", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Estimate of the noise's squared norm at one token", kNoise, false,
     [](const v1::RoundRecord& round) -> Maybe {
       return Estimated(round) ? Maybe(round.gradient_noise()) : std::nullopt;
     }},
    {"/noise_scale", "noise/scale_tokens", nullptr, nullptr, FigureForm::kReal,
     "Gradient noise scale as known after the round", kNoise, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.noise_scale()); }},
    {"/epsilon", "privacy/epsilon", "atoll_run_privacy_epsilon", "privacy", FigureForm::kReal,
     "Epsilon of differential privacy that is spent", kAccountant, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.epsilon()); }},
    {"/clip", "privacy/clip", nullptr, nullptr, FigureForm::kReal,
     "Clip that follows a quantile, as it is after the round", kAccountant, false,
     [](const v1::RoundRecord& round) -> Maybe { return NotZero(round.clip()); }},
};

constexpr Figure<v1::EvaluationRecord> kEvaluationFigures[] = {
    {"/version", "version", nullptr, nullptr, FigureForm::kWhole, "Version that was evaluated",
     kHeaders, true, [](const v1::EvaluationRecord& one) -> Maybe { return Count(one.version()); }},
    {"/loss", "validation/loss", "atoll_run_validation_loss", "validation loss", FigureForm::kReal,
     "Validation loss of the newest version that has one", kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return EvaluatedLoss(one); }},
    {"/tokens", nullptr, nullptr, nullptr, FigureForm::kWhole, "Tokens that it was evaluated on",
     kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return NotZero(one.tokens()); }},
    {"/elapsed_seconds", "time/elapsed_seconds", nullptr, nullptr, FigureForm::kReal,
     "Time of the run when its version was committed", kCoordinator, false,
     [](const v1::EvaluationRecord& one) -> Maybe {
       return EvaluatedLoss(one) ? Maybe(one.elapsed_seconds()) : std::nullopt;
     }},
    {"/own_mean", "validation/own_mean", "atoll_run_own_loss_mean", nullptr, FigureForm::kReal,
     "Mean loss of the parties on what each has held out", kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return OfParties(one, one.own_mean()); }},
    {"/own_tenth", "validation/own_tenth", "atoll_run_own_loss_tenth", nullptr, FigureForm::kReal,
     "10th percentile of the parties' own losses", kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return OfParties(one, one.own_tenth()); }},
    {"/own_ninetieth", "validation/own_ninetieth", "atoll_run_own_loss_ninetieth", nullptr,
     FigureForm::kReal, "90th percentile of the parties' own losses", kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return OfParties(one, one.own_ninetieth()); }},
    {"/own_parties", nullptr, "atoll_run_own_loss_parties", nullptr, FigureForm::kWhole,
     "Parties that have told a loss of their own", kWorkers, false,
     [](const v1::EvaluationRecord& one) -> Maybe { return NotZero(one.own_parties()); }},
};

constexpr Figure<v1::PeerStatus> kPeerFigures[] = {
    {nullptr, nullptr, "atoll_peer_up", nullptr, FigureForm::kWhole,
     "1 while the coordinator hears of it", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return Listed(peer) ? Count(peer.member().state() == "live" ? 1 : 0) : std::nullopt;
     }},
    {"/rounds_contributed", nullptr, "atoll_peer_rounds_total", "rounds contributed",
     FigureForm::kWhole, "Rounds that it contributed to", kHeaders, true,
     [](const v1::PeerStatus& peer) -> Maybe { return Count(peer.rounds_contributed()); }},
    {"/tokens", nullptr, "atoll_peer_tokens_total", "tokens", FigureForm::kWhole,
     "Its training tokens in committed rounds", kHeaders, true,
     [](const v1::PeerStatus& peer) -> Maybe { return Count(peer.tokens()); }},
    {"/mean_share", nullptr, "atoll_peer_mean_share_ratio", "share of the newest mean",
     FigureForm::kReal, "Share of its weight in the newest round's mean", kHeaders, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return Listed(peer) ? Maybe(peer.mean_share()) : std::nullopt;
     }},
    {"/ready_seconds", nullptr, "atoll_peer_ready_seconds", "last ready after", FigureForm::kReal,
     "From the start of its training to its update in the newest round", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.ready_seconds()); }},
    {"/utilisation/compute_utilization", nullptr, "atoll_peer_utilisation_ratio", "utilisation",
     FigureForm::kReal, "Share of the time that was inner steps, of its newest update", kPeers,
     false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return peer.has_utilisation() ? TrainedShare(peer.utilisation()) : std::nullopt;
     }},
    {"/utilisation/train_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Time in inner steps, of its newest update", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer, peer.utilisation().train_seconds());
     }},
    {"/utilisation/waited_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Time outside inner steps, of its newest update", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer, peer.utilisation().waited_seconds());
     }},
    {"/utilisation/hidden_bytes", nullptr, "atoll_peer_hidden_bytes", nullptr, FigureForm::kWhole,
     "Bytes that it exchanged while its worker trained, of its newest update", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer, peer.utilisation().hidden_bytes());
     }},
    {"/utilisation/waited_bytes", nullptr, "atoll_peer_waited_bytes", nullptr, FigureForm::kWhole,
     "The same while its worker waited", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer, peer.utilisation().waited_bytes());
     }},
    {"/up_bytes_per_second", nullptr, "atoll_peer_up_bytes_per_second", nullptr, FigureForm::kReal,
     "The most that its line was seen to send", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.up_bytes_per_second()); }},
    {"/down_bytes_per_second", nullptr, "atoll_peer_down_bytes_per_second", nullptr,
     FigureForm::kReal, "The most that its line was seen to receive", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.down_bytes_per_second()); }},
    {"/up_cap_bytes_per_second", nullptr, "atoll_peer_up_cap_bytes_per_second", nullptr,
     FigureForm::kReal, "What its owner lets it send", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.up_cap_bytes_per_second()); }},
    {"/down_cap_bytes_per_second", nullptr, "atoll_peer_down_cap_bytes_per_second", nullptr,
     FigureForm::kReal, "What its owner lets it receive", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.down_cap_bytes_per_second()); }},
    {"/updates_refused", nullptr, "atoll_peer_updates_refused_total", "updates refused",
     FigureForm::kWhole, "Chunks and updates of it that were refused", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.updates_refused()); }},
    {"/updates_clipped", nullptr, "atoll_peer_updates_clipped_total", "updates scaled down",
     FigureForm::kWhole, "Updates of it that were scaled down", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.updates_clipped()); }},
    {"/data_refused", nullptr, "atoll_peer_data_refused_total", "updates of bad data",
     FigureForm::kWhole, "Updates of it that were not finite, or losses far above the others'",
     kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.data_refused()); }},
    {"/audits_failed", nullptr, "atoll_peer_audits_failed_total", nullptr, FigureForm::kWhole,
     "Means that it made and that an audit found wrong", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.audits_failed()); }},
    {"/suspicions", nullptr, "atoll_peer_suspicions_total", nullptr, FigureForm::kWhole,
     "Audits that named it or another, with no way to decide", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.suspicions()); }},
    {"/worker_failures", nullptr, "atoll_peer_worker_failures", nullptr, FigureForm::kWhole,
     "How often in a row its worker has ended", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe { return WhereListed(peer, peer.worker_failures()); }},
    {"/parties", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Parties that it hosts; 1 if it is one itself", kPeers, true,
     [](const v1::PeerStatus& peer) -> Maybe {
       return Count(std::max<uint32_t>(1, peer.parties()));
     }},
    {"/pid", nullptr, nullptr, "process", FigureForm::kWhole, "Its process", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.pid()); }},
    {"/state_version", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Version whose digest it has reported", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return peer.state_digest().empty() ? std::nullopt : Count(peer.state_version());
     }},
};

constexpr Figure<v1::PeerStatus> kToldFigures[] = {
    {"/progress/version", nullptr, "atoll_peer_version", "version", FigureForm::kWhole,
     "Version of the model that it holds", kPeers, true,
     [](const v1::PeerStatus& peer) -> Maybe { return Count(peer.progress().version()); }},
    {"/progress/step", nullptr, nullptr, nullptr, FigureForm::kWhole, "Inner step of the round",
     kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return peer.progress().steps() == 0 ? std::nullopt : Count(peer.progress().step());
     }},
    {"/progress/steps", nullptr, nullptr, nullptr, FigureForm::kWhole,
     "Inner steps that the round has", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.progress().steps()); }},
    {"/progress/loss", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Training loss of recent inner steps", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.progress().loss()); }},
    {"/progress/tokens_per_second", nullptr, "atoll_peer_tokens_per_second", "tokens a second",
     FigureForm::kReal, "Speed of its inner steps", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return NotZero(peer.progress().tokens_per_second());
     }},
    {"/progress/train_seconds", nullptr, "atoll_peer_train_seconds_total", "trained",
     FigureForm::kReal, "Its inner steps in this run", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer.progress(), peer.progress().train_seconds());
     }},
    {"/progress/exchange_bytes_sent", nullptr, "atoll_peer_exchange_sent_bytes_total",
     "sent in exchanges", FigureForm::kWhole, "Bytes that it sent in exchanges of this run", kPeers,
     false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer.progress(), peer.progress().exchange_bytes_sent());
     }},
    {"/progress/exchange_bytes_received", nullptr, "atoll_peer_exchange_received_bytes_total",
     nullptr, FigureForm::kWhole, "Bytes that it received in exchanges of this run", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer.progress(), peer.progress().exchange_bytes_received());
     }},
    {"/progress/resident_bytes", nullptr, "atoll_peer_resident_bytes", nullptr, FigureForm::kWhole,
     "Memory of its daemon", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe { return NotZero(peer.progress().resident_bytes()); }},
    {"/progress/disk_free_bytes", nullptr, "atoll_peer_disk_free_bytes", nullptr,
     FigureForm::kWhole, "Left on the disk of its replica", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return NotZero(peer.progress().disk_free_bytes());
     }},
    {"/progress/memory_available_bytes", nullptr, "atoll_peer_memory_available_bytes", nullptr,
     FigureForm::kWhole, "Memory that its machine has left", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return NotZero(peer.progress().memory_available_bytes());
     }},
    {"/progress/slow_sync_seconds", nullptr, nullptr, nullptr, FigureForm::kReal,
     "Its longest slow fsync of the last ten minutes; 0 if none was slow", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer.progress(), peer.progress().slow_sync_seconds());
     }},
    {"/clock_offset_seconds", nullptr, "atoll_peer_clock_offset_seconds", "clock",
     FigureForm::kReal, "Its clock minus the coordinator's", kCoordinator, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return peer.progress().clock_seconds() > 0 ? Maybe(peer.clock_offset_seconds())
                                                  : std::nullopt;
     }},
    {nullptr, nullptr, "atoll_peer_held_back", nullptr, FigureForm::kWhole,
     "1 while it does not train by its owner's will", kPeers, false,
     [](const v1::PeerStatus& peer) -> Maybe {
       return WhereTold(peer.progress(), peer.progress().held_back().empty() ? 0 : 1);
     }},
};

constexpr Figure<v1::LinkStatus> kLinkFigures[] = {
    {"/predicted_bytes_per_second", nullptr, "atoll_link_predicted_bytes_per_second", nullptr,
     FigureForm::kReal,
     "What the newest plan counted on between two regions, the labels `from` and `to`", kPlanner,
     false,
     [](const v1::LinkStatus& link) -> Maybe {
       return NotZero(link.predicted_bytes_per_second());
     }},
    {"/measured_bytes_per_second", nullptr, "atoll_link_measured_bytes_per_second", nullptr,
     FigureForm::kReal, "What the newest exchange has shown there", kPeers, false,
     [](const v1::LinkStatus& link) -> Maybe { return NotZero(link.measured_bytes_per_second()); }},
    {"/seconds", nullptr, "atoll_link_latency_seconds", nullptr, FigureForm::kReal,
     "How long a byte takes there", kPeers, false,
     [](const v1::LinkStatus& link) -> Maybe { return NotZero(link.seconds()); }},
};

}  // namespace

absl::Span<const Figure<v1::RunStatus>> RunFigures() { return kRunFigures; }
absl::Span<const Figure<v1::RoundRecord>> RoundFigures() { return kRoundFigures; }
absl::Span<const Figure<v1::EvaluationRecord>> EvaluationFigures() { return kEvaluationFigures; }
absl::Span<const Figure<v1::PeerStatus>> PeerFigures() { return kPeerFigures; }
absl::Span<const Figure<v1::PeerStatus>> ToldFigures() { return kToldFigures; }
absl::Span<const Figure<v1::LinkStatus>> LinkFigures() { return kLinkFigures; }

Json FigureJson(std::optional<double> value, FigureForm form) {
  if (!value) return nullptr;
  if (const char* const word = WordOf(*value)) return word;
  if (form == FigureForm::kWhole) return static_cast<uint64_t>(*value);
  return *value;
}

std::optional<double> FigureOf(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return ValueOfWord(json.get_ref<const std::string&>());
  return std::nullopt;
}

template <typename Of>
void PutFigures(absl::Span<const Figure<Of>> figures, const Of& of, Json* json) {
  for (const Figure<Of>& figure : figures) {
    if (figure.json == nullptr) continue;
    (*json)[Json::json_pointer(figure.json)] = FigureJson(figure.value(of), figure.form);
  }
}

template <typename Of>
std::optional<double> ValueOf(absl::Span<const Figure<Of>> figures, absl::string_view json,
                              const Of& of) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure<Of>& figure) {
    return figure.json != nullptr && json == figure.json;
  });
  CHECK(found != figures.end());
  return found->value(of);
}

std::string KnownText(std::optional<double> value, std::string (*text)(double)) {
  return value ? text(*value) : "not known";
}

template void PutFigures(absl::Span<const Figure<v1::RunStatus>>, const v1::RunStatus&, Json*);
template void PutFigures(absl::Span<const Figure<v1::RoundRecord>>, const v1::RoundRecord&, Json*);
template void PutFigures(absl::Span<const Figure<v1::EvaluationRecord>>,
                         const v1::EvaluationRecord&, Json*);
template void PutFigures(absl::Span<const Figure<v1::PeerStatus>>, const v1::PeerStatus&, Json*);
template void PutFigures(absl::Span<const Figure<v1::LinkStatus>>, const v1::LinkStatus&, Json*);
template std::optional<double> ValueOf(absl::Span<const Figure<v1::RunStatus>>, absl::string_view,
                                       const v1::RunStatus&);
template std::optional<double> ValueOf(absl::Span<const Figure<v1::RoundRecord>>, absl::string_view,
                                       const v1::RoundRecord&);
template std::optional<double> ValueOf(absl::Span<const Figure<v1::PeerStatus>>, absl::string_view,
                                       const v1::PeerStatus&);

}  // namespace atolld
