#include "membership/run/run_view.h"

namespace atolld {

RunPhase RunView::phase() const {
  if (run_.ledger.seal()) return RunPhase::kSealed;
  if (!run_.adoption.empty()) return RunPhase::kAdopting;
  if (!run_.ledger.genesis()) return RunPhase::kNoGenesis;
  if (run_.ledger.version() >= LastVersion()) return RunPhase::kEnding;
  if (exchanging()) return RunPhase::kExchanging;
  return run_.ledger.control().paused() ? RunPhase::kPaused : RunPhase::kTraining;
}

std::string RunView::PhaseText(const std::string& reason) const {
  const RunPhase now = phase();
  const uint64_t version = run_.ledger.version();
  const bool paused = run_.ledger.control().paused() && !exchanging();
  if (paused && now != RunPhase::kSealed && now != RunPhase::kAdopting) return "paused";
  switch (now) {
    case RunPhase::kSealed:
      return "sealed";
    case RunPhase::kAdopting:
      return "waiting";
    case RunPhase::kNoGenesis:
      return run_.beginning.asked() ? "initializing" : "waiting";
    case RunPhase::kEnding:
      if (run_.ledger.Evaluated(version) || run_.ending.unjudged(version)) return "sealing";
      return run_.ending.evaluating() ? "evaluating" : "waiting";
    case RunPhase::kExchanging:
      return "exchanging";
    case RunPhase::kPaused:
    case RunPhase::kTraining:
      break;
  }
  const Round& round = run_.training.round();
  if (!round.open() || !round.reason().empty() || !reason.empty()) return "waiting";
  return run_.ending.evaluating(version) ? "evaluating" : "training";
}

std::string RunView::WaitingFor(const std::string& reason) const {
  const bool paused = run_.ledger.control().paused() && !exchanging();
  const bool sealed = run_.ledger.seal().has_value();
  const bool rounds_go_on =
      run_.ledger.genesis() && !sealed && !paused && run_.ledger.version() < LastVersion();
  std::string why = reason;
  if (why.empty() && rounds_go_on) {
    why = run_.masks.under_way() ? run_.masks.WaitingFor() : run_.training.round().reason();
  }
  return sealed || paused ? why : run_.members.WithTroubles(why);
}

v1::RunStatus RunView::Status(absl::Time now, std::optional<absl::Time> wall,
                              const std::string& reason) const {
  const Ledger& ledger = run_.ledger;
  const Members& members = run_.members;
  const Round& round = run_.training.round();
  v1::RunStatus status;
  ledger.Show(now, &status);
  status.set_phase(PhaseText(reason));
  status.set_reason(WaitingFor(reason));
  *status.mutable_data() = run_.training.leases().Status();
  status.mutable_data()->set_samples_a_pass(members.SamplesInPass(ledger.spec()));
  run_.exchanges.Show(&status);
  status.set_elapsed_seconds(
      ledger.Elapsed(ledger.seal() && !ledger.rounds().empty() ? run_.ending.sealed_at() : now));
  const v1::Roster roster = members.roster().ToProto();
  const auto notes = round.Notes(now, members.roster());
  for (const v1::Member& member : roster.members()) {
    v1::PeerStatus* const peer = status.add_peers();
    *peer = members.StatusOf(member, notes);
    if (members.FindInfo(member.peer()) == nullptr) continue;
    run_.exchanges.Show(member.peer(), peer);
    peer->set_ready_seconds(absl::ToDoubleSeconds(round.ReadyAfter(member.peer())));
  }
  members.reach().Show(now, &status);
  ledger.ShowShares(&status);
  if (wall) members.ShowClocks(now, *wall, &status);
  if (wall) ledger.ShowEnd(now, *wall, exchanging(), &status);
  return status;
}

}  // namespace atolld
