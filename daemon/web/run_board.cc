#include "daemon/web/run_board.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "daemon/figures/status_json.h"

namespace atolld {
namespace {

constexpr size_t kEventsOnBoard = 200;  // as many as the coordinator keeps

// A chart has fewer points than this. Of a longer history a reader gets all of the newest rounds
// and every n-th of the others.
constexpr size_t kMostRoundsAtOnce = 4000;

constexpr absl::Duration kBetweenEvents = absl::Milliseconds(250);
// A status of a thousand peers has a megabyte, so such statuses come less often.
constexpr double kEventBytesPerSecond = 1 << 20;
// How often a reader is told that there is nothing new.
constexpr absl::Duration kBetweenBeats = absl::Seconds(1);

}  // namespace

// A reader that is ahead of its status waits; one that is behind gets everything at once.
class BoardEvents final : public HttpEvents {
 public:
  BoardEvents(const RunBoard& board, const RunBoard::Place& place) : board_(board), place_(place) {}

  std::optional<std::string> Next(absl::Duration patience) override {
    std::string begin;
    if (!std::exchange(greeted_, true)) begin = "retry: 1000\n\n";
    const absl::Time now = board_.now_();
    // Until the next event may come, only the beat can.
    const bool early = now < next_event_;
    const RunBoard::News news =
        early ? board_.NewsSince(nullptr, std::min(patience, next_event_ - now))
              : board_.NewsSince(&place_, patience);
    const absl::Time after = board_.now_();
    if (!news.text.empty()) {
      next_event_ = after + std::max(kBetweenEvents, absl::Seconds(static_cast<double>(news.bytes) /
                                                                   kEventBytesPerSecond));
      next_beat_ = after + kBetweenBeats;
      return begin + news.text;
    }
    if (after < next_beat_) return begin;
    next_beat_ = after + kBetweenBeats;
    const double age = absl::ToDoubleSeconds(after - news.taken);
    return absl::StrCat(begin, "event: beat\ndata: ", absl::StrFormat("%.3f", age), "\n\n");
  }

 private:
  const RunBoard& board_;
  RunBoard::Place place_;
  bool greeted_ = false;
  absl::Time next_event_ = absl::InfinitePast();
  absl::Time next_beat_ = absl::InfinitePast();
};

RunBoard::RunBoard(uint64_t life, std::function<absl::Time()> now)
    : life_(life), now_(std::move(now)), taken_(now_()) {}

void RunBoard::Take(const v1::RunStatus& news) {
  v1::RunStatus rest = news;
  rest.clear_rounds();
  rest.clear_evaluations();
  rest.clear_events();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    newest_ = std::move(rest);
    for (const v1::RoundRecord& round : news.rounds()) rounds_[round.version()] = round;
    for (const v1::EvaluationRecord& one : news.evaluations()) evaluations_[one.version()] = one;
    for (const std::string& event : news.events()) events_.push_back(event);
    while (events_.size() > kEventsOnBoard) {
      events_.pop_front();
      ++first_event_;
    }
    ++statuses_;
    taken_ = now_();
  }
  changed_.notify_all();
}

void RunBoard::AddRounds(uint64_t after, v1::RunStatus* status) const {
  const auto begin = rounds_.upper_bound(after);
  const auto count = static_cast<size_t>(std::distance(begin, rounds_.end()));
  const size_t whole = kMostRoundsAtOnce / 2;
  const size_t step = count <= kMostRoundsAtOnce ? 1 : (count - whole) / whole + 1;
  size_t left = count;
  for (auto at = begin; at != rounds_.end(); ++at, --left) {
    if (left <= whole || left % step == 0) *status->add_rounds() = at->second;
  }
}

void RunBoard::AddRest(const Place& after, v1::RunStatus* status) const {
  for (auto at = evaluations_.lower_bound(after.evaluation); at != evaluations_.end(); ++at) {
    *status->add_evaluations() = at->second;
  }
  for (uint64_t i = std::max(after.event, first_event_); i < first_event_ + events_.size(); ++i) {
    status->add_events(events_[i - first_event_]);
  }
}

v1::RunStatus RunBoard::Newest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::RunStatus status = newest_;
  if (!rounds_.empty()) *status.add_rounds() = rounds_.rbegin()->second;
  if (!evaluations_.empty()) *status.add_evaluations() = evaluations_.rbegin()->second;
  return status;
}

std::string RunBoard::RunJson() const {
  v1::RunStatus status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (statuses_ == 0) return "{}\n";
    status = newest_;
    AddRounds(0, &status);
    AddRest(Place(), &status);
  }
  return JsonLine(RunStatusJson(status));
}

std::string RunBoard::RoundsJson(uint64_t from) const {
  v1::RunStatus status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = rounds_.lower_bound(from); at != rounds_.end(); ++at) {
      if (static_cast<size_t>(status.rounds_size()) == kRoundsAPage) break;
      *status.add_rounds() = at->second;
    }
  }
  return JsonLine(RunStatusJson(status)["rounds"]);
}

std::string RunBoard::IdOf(const Place& place) const {
  return absl::StrFormat("%016x-%d-%d-%d", life_, place.round, place.evaluation, place.event);
}

std::optional<RunBoard::Place> RunBoard::PlaceOf(absl::string_view id) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(id, '-');
  Place place;
  if (parts.size() != 4 || parts[0] != absl::StrFormat("%016x", life_) ||
      !absl::SimpleAtoi(parts[1], &place.round) || !absl::SimpleAtoi(parts[2], &place.evaluation) ||
      !absl::SimpleAtoi(parts[3], &place.event)) {
    return std::nullopt;
  }
  return place;
}

RunBoard::News RunBoard::NewsSince(Place* place, absl::Duration patience) const {
  News news;
  v1::RunStatus status;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto wait = std::chrono::milliseconds(absl::ToInt64Milliseconds(patience));
    const uint64_t seen = place == nullptr ? UINT64_MAX : place->status;
    const bool come = changed_.wait_for(lock, wait, [&] { return statuses_ > seen; });
    news.taken = taken_;
    if (!come) return news;
    status = newest_;
    AddRounds(place->round, &status);
    AddRest(*place, &status);
    place->status = statuses_;
    if (!rounds_.empty()) place->round = std::max(place->round, rounds_.rbegin()->first);
    if (!evaluations_.empty()) {
      place->evaluation = std::max(place->evaluation, evaluations_.rbegin()->first + 1);
    }
    place->event = first_event_ + events_.size();
  }
  const std::string json = JsonLine(RunStatusJson(status));
  news.bytes = json.size();
  news.text = absl::StrCat("id: ", IdOf(*place), "\nevent: run\ndata: ", json, "\n");
  return news;
}

std::unique_ptr<HttpEvents> RunBoard::Follow(const std::string& last_id) const {
  return std::make_unique<BoardEvents>(*this, PlaceOf(last_id).value_or(Place()));
}

}  // namespace atolld
