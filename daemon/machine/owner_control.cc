#include "daemon/machine/owner_control.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(3);
constexpr absl::Duration kShortestLook = absl::Milliseconds(20);

// The contributions of a peer are no reason to write at each round.
constexpr absl::Duration kSaveWithin = absl::Seconds(10);

constexpr uint64_t kLongestFile = uint64_t{1} << 16;
constexpr size_t kMostCalls = 32;  // people ask

constexpr absl::string_view kService = "/atolld.v1.Machine/";

absl::StatusOr<std::string> ReadIfThere(Files& files, const std::string& path) {
  if (!files.Exists(path)) return std::string();
  return ReadFile(files, path, kLongestFile);
}

// Reads what `limits set` has stored into `book`, and checks it by the rules of the limits.
absl::Status LoadLimits(Files& files, const std::string& dir, LimitBook* book,
                        OwnerLimits* limits) {
  const std::string path = absl::StrCat(dir, "/", kLimitsFile);
  ASSIGN_OR_RETURN(const std::string kept, ReadIfThere(files, path));
  absl::Status read = book->Load(kept);
  if (read.ok()) read = limits->Set(book->limits());
  if (read.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", read.message(), "; mend that line, or remove the file"));
}

absl::Status WriteLimits(Files& files, const std::string& dir, const std::string& kept) {
  return WriteFileDurably(files, absl::StrCat(dir, "/", kLimitsFile), BytesOf(kept));
}

// Converts the seconds of a request, in which 0 means until Resume.
absl::Duration PauseOf(uint64_t seconds) {
  if (seconds == 0) return absl::InfiniteDuration();
  return absl::Seconds(static_cast<int64_t>(
      std::min(seconds, static_cast<uint64_t>(absl::ToInt64Seconds(absl::Hours(24 * 3650))))));
}

std::string SecondsText(absl::Duration duration) {
  return duration == absl::InfiniteDuration()
             ? ""
             : absl::StrFormat(" %.3f", absl::ToDoubleSeconds(duration));
}

}  // namespace

std::string OwnerState::Text() const {
  std::string text;
  if (order.kind == OwnerOrder::Kind::kPause) {
    const absl::Duration until = order.until == absl::InfiniteFuture()
                                     ? absl::InfiniteDuration()
                                     : order.until - absl::UnixEpoch();
    absl::StrAppend(&text, "pause", SecondsText(until), "\n");
  } else if (order.kind == OwnerOrder::Kind::kFinish) {
    absl::StrAppend(&text, "finish", SecondsText(order.pause), "\n");
  }
  absl::StrAppend(&text, "rounds ", rounds, "\ntokens ", tokens, "\n");
  if (trace_began > 0) absl::StrAppendFormat(&text, "trace %.3f\n", trace_began);
  if (!day.empty()) absl::StrAppendFormat(&text, "trained %.3f %s\n", train_seconds, day);
  return text;
}

absl::StatusOr<OwnerState> OwnerState::Parse(absl::string_view text) {
  OwnerState state;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    double seconds = 0;
    bool good = words.size() <= 3;
    if (words.size() > 1) good = good && absl::SimpleAtod(words[1], &seconds);
    if (words[0] == "pause") {
      state.order.kind = OwnerOrder::Kind::kPause;
      if (words.size() > 1) state.order.until = absl::UnixEpoch() + absl::Seconds(seconds);
    } else if (words[0] == "finish") {
      state.order.kind = OwnerOrder::Kind::kFinish;
      if (words.size() > 1) state.order.pause = absl::Seconds(seconds);
    } else if (words[0] == "trace" && words.size() == 2) {
      state.trace_began = seconds;
    } else if (words[0] == "rounds" && words.size() == 2) {
      good = absl::SimpleAtoi(words[1], &state.rounds);
    } else if (words[0] == "tokens" && words.size() == 2) {
      good = absl::SimpleAtoi(words[1], &state.tokens);
    } else if (words[0] == "trained" && words.size() == 3) {
      state.train_seconds = seconds;
      state.day = words[2];
    } else {
      good = false;
    }
    if (!good)
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' is not one of its lines"));
  }
  return state;
}

absl::StatusOr<LimitBook> KeepLimits(Files& files, const std::string& dir,
                                     const MachineConfig& configured, absl::TimeZone zone,
                                     absl::Span<const std::pair<std::string, std::string>> values) {
  LimitBook book(configured);
  OwnerLimits limits(zone);
  RETURN_IF_ERROR(LoadLimits(files, dir, &book, &limits));
  RETURN_IF_ERROR(book.Set(values, false));
  RETURN_IF_ERROR(limits.Set(book.limits()));
  RETURN_IF_ERROR(WriteLimits(files, dir, book.Kept()));
  return book;
}

OwnerControl::OwnerControl(Env env, std::string dir, const MachineConfig& configured,
                           Sensors& sensors, absl::TimeZone zone, Events events)
    : env_(env),
      dir_(std::move(dir)),
      sensors_(sensors),
      zone_(zone),
      events_(std::move(events)),
      started_(env.executor.WallTime()),
      book_(configured),
      limits_(zone),
      writes_(env.executor) {}

absl::Status OwnerControl::Load() {
  RETURN_IF_ERROR(LoadLimits(env_.files, dir_, &book_, &limits_));
  const std::string path = absl::StrCat(dir_, "/", kOwnerStateFile);
  ASSIGN_OR_RETURN(const std::string text, ReadIfThere(env_.files, path));
  const absl::StatusOr<OwnerState> state = OwnerState::Parse(text);
  if (!state.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", state.status().message(),
                                                      "; remove it, and give the order again"));
  }
  state_ = *state;
  return absl::OkStatus();
}

void OwnerControl::Follow(TraceFollower trace, absl::Time began) {
  trace_.emplace(std::move(trace));
  BeginTrace(began);
}

absl::Time OwnerControl::BeginTrace(absl::Time began) {
  if (began != absl::InfinitePast()) {
    state_.trace_began = absl::ToDoubleSeconds(began - absl::UnixEpoch());
  } else if (state_.trace_began <= 0) {
    state_.trace_began = absl::ToDoubleSeconds(started_ - absl::UnixEpoch());
    SaveSoon();
  }
  return absl::UnixEpoch() + absl::Seconds(state_.trace_began);
}

void OwnerControl::Start() {
  if (state_.order.kind == OwnerOrder::Kind::kFinish) events_.finish_round(true);
  Decide();
  Look();
}

// -----------------------------------------------------------------------------------------------
// Looking and deciding

void OwnerControl::Look() {
  if (reading_) return;
  reading_ = true;
  sensors_.Read(book_.limits(), guard_.Wrap([this](const MachineView& view) {
    reading_ = false;
    view_ = view;
    Decide();
  }));
}

void OwnerControl::Decide() {
  const absl::Time wall = env_.executor.WallTime();
  if (state_.order.kind == OwnerOrder::Kind::kPause && wall >= state_.order.until) {
    state_.order = OwnerOrder();
    SaveSoon();
  }
  if (events_.bytes_today) {
    const BytesToday today = events_.bytes_today();
    view_.bytes_today = today.sent + today.received;
  }
  v1::MachineStatus told;
  events_.tell(&told);
  CountTraining(told.progress());
  MachineVerdict verdict = limits_.Look(env_.executor.Now(), wall, state_.order, view_);
  if (trace_) {
    trace_->Restrict(absl::UnixEpoch() + absl::Seconds(state_.trace_began), wall, zone_, &verdict);
  }
  const bool changed = !decided_ || verdict.reasons != verdict_.reasons ||
                       verdict.may_exchange != verdict_.may_exchange;
  const bool idles = !verdict.may_train;
  const bool was_idle = decided_ && !verdict_.may_train;
  if (!idles) idle_since_ = absl::InfinitePast();
  if (idles && idle_since_ == absl::InfinitePast()) idle_since_ = wall;
  verdict_ = std::move(verdict);
  decided_ = true;
  Schedule();
  if (!changed) return;
  if (idles) {
    env_.log.Info(absl::StrCat("held back: ", absl::StrJoin(verdict_.reasons, "; ")));
  } else if (was_idle) {
    env_.log.Info("nothing holds this machine back any more");
  }
  events_.on_verdict(verdict_);
}

void OwnerControl::Schedule() {
  env_.executor.Cancel(timer_);
  const absl::Duration left = verdict_.changes - env_.executor.WallTime();
  timer_ = env_.executor.RunAfter(std::clamp(left, kShortestLook, kLookEvery), guard_.Wrap([this] {
    if (reading_) return Decide();
    Look();
  }));
}

void OwnerControl::CountTraining(const v1::PeerProgress& progress) {
  const std::string day = absl::FormatTime("%Y-%m-%d", env_.executor.WallTime(), zone_);
  if (state_.day != day) state_.train_seconds = 0;
  state_.day = day;
  // What it tells first was trained by daemons before this one.
  const double before = train_seconds_.value_or(progress.train_seconds());
  state_.train_seconds += std::max(0.0, progress.train_seconds() - before);
  train_seconds_ = progress.train_seconds();
}

void OwnerControl::OnRoundFinished() {
  if (state_.order.kind != OwnerOrder::Kind::kFinish) return;
  OwnerOrder order;
  order.kind = OwnerOrder::Kind::kPause;
  order.until = env_.executor.WallTime() + state_.order.pause;
  SetOrder(order);
  Save();
}

void OwnerControl::OnContributed(uint64_t tokens) {
  ++state_.rounds;
  state_.tokens += tokens;
  SaveSoon();
}

void OwnerControl::SetOrder(const OwnerOrder& order) {
  const bool finished = state_.order.kind == OwnerOrder::Kind::kFinish;
  const bool finishes = order.kind == OwnerOrder::Kind::kFinish;
  state_.order = order;
  if (finished != finishes) events_.finish_round(finishes);
  Decide();
}

// -----------------------------------------------------------------------------------------------
// On the disk

void OwnerControl::Save() {
  if (writing_order_) {  // it would bring back what held before that
    save_after_ = true;
    return;
  }
  const auto status = std::make_shared<absl::Status>();
  writes_.Run(
      [files = &env_.files, path = absl::StrCat(dir_, "/", kOwnerStateFile), text = state_.Text(),
       status] { *status = WriteFileDurably(*files, path, BytesOf(text)); },
      guard_.Wrap([this, status] {
        if (!status->ok()) env_.log.Error(absl::StrCat("the owner's word: ", status->message()));
      }));
}

void OwnerControl::SaveSoon() {
  if (std::exchange(saving_soon_, true)) return;
  env_.executor.RunAfter(kSaveWithin, guard_.Wrap([this] {
    saving_soon_ = false;
    Save();
  }));
}

// -----------------------------------------------------------------------------------------------
// The service

void OwnerControl::Accept(const std::string& method, std::unique_ptr<Call> call) {
  const bool full = asked_.size() >= kMostCalls;
  const uint64_t id = ++next_call_;
  Asked& asked = asked_[id];
  asked.method = method;
  asked.call = std::move(call);
  Call::Events events;
  events.on_frame = guard_.Wrap([this, id](const Frame& frame) { OnQuestion(id, frame); });
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) { asked_.erase(id); });
  asked.call->Start(std::move(events));
  if (full) return asked.call->Finish(absl::ResourceExhaustedError("too many ask at once"));
  asked.call->Read();
}

void OwnerControl::OnQuestion(uint64_t id, const Frame& question) {
  const std::string method = asked_.at(id).method;
  if (absl::StripPrefix(method, kService) == "Show") return Answer(id, absl::OkStatus());
  waiting_.push_back({id, method, question});
  CarryOutNext();
}

void OwnerControl::CarryOutNext() {
  while (!writing_order_ && !waiting_.empty()) {
    const Waiting order = std::move(waiting_.front());
    waiting_.pop_front();
    const absl::StatusOr<Change> change = Prepare(order.method, order.question);
    if (!change.ok() || change->file.empty()) {
      if (change.ok()) change->apply();
      Answer(order.id, change.status());
      continue;
    }
    writing_order_ = true;
    const auto status = std::make_shared<absl::Status>();
    writes_.Run(
        [files = &env_.files, path = absl::StrCat(dir_, "/", change->file), text = change->text,
         status] { *status = WriteFileDurably(*files, path, BytesOf(text)); },
        guard_.Wrap([this, status, id = order.id, apply = change->apply] {
          writing_order_ = false;
          if (status->ok()) apply();
          Answer(id, Annotate(*status, "nothing has changed"));
          if (std::exchange(save_after_, false)) Save();
          CarryOutNext();
        }));
  }
}

void OwnerControl::Answer(uint64_t id, const absl::Status& status) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  if (status.ok()) asked->second.call->Write(Pack(Status()));
  asked->second.call->Finish(status);
}

absl::StatusOr<OwnerControl::Change> OwnerControl::Prepare(const std::string& method,
                                                           const Frame& question) {
  const absl::string_view name = absl::StripPrefix(method, kService);
  if (name == "SetLimits") {
    v1::SetLimitsRequest request;
    RETURN_IF_ERROR(Unpack(question, &request));
    return PrepareLimits(request);
  }
  ASSIGN_OR_RETURN(const OwnerOrder order, OrderIn(name, question));
  OwnerState changed = state_;
  changed.order = order;
  return Change{kOwnerStateFile, changed.Text(), [this, order] { SetOrder(order); }};
}

absl::StatusOr<OwnerOrder> OwnerControl::OrderIn(absl::string_view name,
                                                 const Frame& question) const {
  OwnerOrder order;
  if (name == "Pause") {
    v1::PauseMachineRequest request;
    RETURN_IF_ERROR(Unpack(question, &request));
    order.kind = OwnerOrder::Kind::kPause;
    order.until = env_.executor.WallTime() + PauseOf(request.seconds());
  } else if (name == "FinishRound") {
    v1::FinishRoundRequest request;
    RETURN_IF_ERROR(Unpack(question, &request));
    order.pause = PauseOf(request.pause_seconds());
    // What is held back has nothing to finish, and does not begin for it.
    order.kind = verdict_.may_train ? OwnerOrder::Kind::kFinish : OwnerOrder::Kind::kPause;
    order.until = env_.executor.WallTime() + order.pause;
  } else if (name != "Resume") {
    return absl::UnimplementedError(absl::StrCat(kService, name, " is not served here"));
  }
  return order;
}

absl::StatusOr<OwnerControl::Change> OwnerControl::PrepareLimits(
    const v1::SetLimitsRequest& request) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const v1::Limit& limit : request.limits()) values.emplace_back(limit.key(), limit.value());
  const bool until_restart = request.until_restart();
  LimitBook changed = book_;
  RETURN_IF_ERROR(changed.Set(values, until_restart));
  RETURN_IF_ERROR(OwnerLimits(zone_).Set(changed.limits()));
  // Over the book as it is by then: the config may be read again meanwhile.
  const auto apply = [this, values, until_restart] {
    LimitBook now = book_;
    absl::Status taken = now.Set(values, until_restart);
    if (taken.ok()) taken = Take(std::move(now));
    if (!taken.ok()) env_.log.Error(absl::StrCat("limits: ", taken.message()));
  };
  if (until_restart) return Change{"", "", apply};
  return Change{kLimitsFile, changed.Kept(), apply};
}

absl::Status OwnerControl::Configure(const MachineConfig& configured) {
  LimitBook changed = book_;
  changed.Configure(configured);
  return Take(std::move(changed));
}

absl::Status OwnerControl::Take(LimitBook changed) {
  RETURN_IF_ERROR(limits_.Set(changed.limits()));
  const MachineConfig before = std::exchange(book_, std::move(changed)).limits();
  const MachineConfig& now = book_.limits();
  if (events_.on_caps && (now.up_cap != before.up_cap || now.down_cap != before.down_cap)) {
    events_.on_caps(now.up_cap, now.down_cap);
  }
  if (events_.on_processors && now.processors != before.processors) {
    events_.on_processors(now.processors);
  }
  Decide();
  Look();
  return absl::OkStatus();
}

v1::MachineStatus OwnerControl::Status() {
  v1::MachineStatus status;
  events_.tell(&status);
  CountTraining(status.progress());
  for (const std::string& reason : verdict_.reasons) status.add_idle(reason);
  if (verdict_.may_exchange && !status.connected()) {
    status.add_idle(absl::StrCat("no coordinator answers at ", status.coordinator()));
  } else if (!status.run_phase().empty()) {
    status.add_idle(absl::StrCat("the run waits: ", status.run_phase()));
  }
  if (idle_since_ != absl::InfinitePast()) {
    status.set_idle_since_unix_seconds(absl::ToDoubleSeconds(idle_since_ - absl::UnixEpoch()));
  }
  status.set_paused(state_.order.kind == OwnerOrder::Kind::kPause);
  status.set_finishing(state_.order.kind == OwnerOrder::Kind::kFinish);
  if (status.paused() && state_.order.until != absl::InfiniteFuture()) {
    status.set_paused_until_unix_seconds(
        absl::ToDoubleSeconds(state_.order.until - absl::UnixEpoch()));
  }
  for (v1::Limit& limit : book_.List()) *status.add_limits() = std::move(limit);
  status.set_started_unix_seconds(absl::ToDoubleSeconds(started_ - absl::UnixEpoch()));
  status.set_rounds(state_.rounds);
  status.set_tokens(state_.tokens);
  status.set_train_seconds_today(state_.train_seconds);
  if (events_.bytes_today) {
    const BytesToday today = events_.bytes_today();
    status.set_bytes_sent_today(today.sent);
    status.set_bytes_received_today(today.received);
  }
  return status;
}

}  // namespace atolld
