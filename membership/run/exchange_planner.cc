#include "membership/run/exchange_planner.h"

#include <algorithm>

#include "membership/planning/arrival_log.h"

namespace atolld {
namespace {

// A window that shows a rate carries so much of the vector, and some chunks at least: frames come
// whole, so a shorter one would show the luck of where it begins.
constexpr double kWindowShare = 1.0 / 8;
constexpr double kWindowChunks = 2;
// In the opening: fewer, and three streams that end a chunk at once would look like a fast line.
constexpr double kOpeningChunks = 16;

}  // namespace

std::string ExchangePlanner::Plan(const Roster& roster, const EncodedSize& size,
                                  ExchangeTerms* terms,
                                  std::vector<ExchangeContributor>* contributors) {
  const std::vector<bool> reduces = WhoReduces(*terms, *contributors);
  if (std::find(reduces.begin(), reduces.end(), true) == reduces.end()) {
    chosen_ = ChosenPlan();  // all goes to aggregators, of whose lines nothing is measured
    return "";
  }
  std::vector<KnownPeer> peers;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const RosterMember& member = *roster.Find((*contributors)[i].member.peer());
    peers.push_back({member.peer, member.region, static_cast<double>(member.up_limit),
                     static_cast<double>(member.down_limit), reduces[i]});
  }
  vector_bytes_ = std::max(size.update_bytes, size.mean_bytes);
  chunks_ = static_cast<uint32_t>((terms->parameters + terms->chunk_elements - 1) /
                                  terms->chunk_elements);
  const std::optional<LinkModel> links = estimates_.Model(peers);
  chosen_ = choice_.Choose(links ? &*links : nullptr, reduces, size, chunks_);
  terms->by_region = ByRegion(chosen_.shape);
  for (size_t i = 0; i < reduces.size(); ++i) {
    if (chosen_.bandwidths[i] > 0) (*contributors)[i].bandwidth = chosen_.bandwidths[i];
  }
  return chosen_.change;
}

void ExchangePlanner::NoteVote(const ExchangeRound& exchange, const std::string& peer,
                               const v1::Vote& vote, absl::Duration since_plan) {
  const v1::Plan& plan = exchange.plan();
  const bool of_first_plan = vote.version() == plan.version() && vote.epoch() == plan.epoch() &&
                             vote.revision() == 1 && exchange.Contributes(peer);
  if (!of_first_plan || !vote.has_arrivals()) return;
  const auto there = static_cast<double>(vote.arrivals().sent_microseconds());
  estimates_.NoteCoordinator(peer, since_plan - absl::Microseconds(there));
}

void ExchangePlanner::NoteEnd(const Roster& roster, const ExchangeRound& exchange,
                              absl::Duration time) {
  const v1::Plan& plan = exchange.plan();
  choice_.NoteSeconds(absl::ToDoubleSeconds(time), plan.revision() != 1);
  const auto contributors = static_cast<size_t>(plan.contributors_size());
  if (plan.revision() != 1 || contributors > ArrivalLog::kMostPeers) return;
  if (chosen_.bandwidths.empty()) return;
  std::vector<ExchangeWitness> witnesses;
  for (const v1::PlanMember& member : plan.contributors()) {
    const auto vote = exchange.votes().find(member.peer());
    const RosterMember* known = roster.Find(member.peer());
    if (vote == exchange.votes().end() || !vote->second.has_arrivals() || known == nullptr) return;
    witnesses.push_back({member.peer(), known->region, &vote->second.arrivals()});
  }
  const double chunk_bytes = vector_bytes_ / chunks_;
  const double least = std::max(kWindowShare * vector_bytes_, kWindowChunks * chunk_bytes);
  if (!estimates_.Note(witnesses, least, kOpeningChunks * chunk_bytes)) return;
  choice_.NoteArrived(estimates_.arrived_updates(), estimates_.arrived_means());
}

}  // namespace atolld
