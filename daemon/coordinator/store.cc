#include "daemon/coordinator/store.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

template <typename Record>
void Replace(const Record& record, std::vector<Record>* records) {
  const auto it = std::find_if(records->begin(), records->end(),
                               [&](const Record& old) { return old.serial == record.serial; });
  if (it == records->end()) {
    records->push_back(record);
  } else {
    *it = record;
  }
}

template <typename Record>
void Remove(const std::string& serial, std::vector<Record>* records) {
  records->erase(std::remove_if(records->begin(), records->end(),
                                [&](const Record& one) { return one.serial == serial; }),
                 records->end());
}

// A person has to make room on a full disk; once a second is soon enough for that.
constexpr absl::Duration kRetryFullDisk = absl::Seconds(1);

// Updates in one transaction: enough that a crowd that joins does not wait for a sync each.
constexpr size_t kMostTogether = 256;

}  // namespace

absl::StatusOr<size_t> Store::ApplyFirst(absl::Span<const RunUpdate* const> updates) {
  RETURN_IF_ERROR(Apply(*updates.front()));
  return 1;
}

absl::Status MemoryStore::Apply(const RunUpdate& update) {
  RETURN_IF_ERROR(disk_->fails);
  ++disk_->updates;
  StoredRun& run = disk_->run;
  if (update.spec) run.spec = update.spec;
  if (update.epoch) run.epoch = *update.epoch;
  run.started = run.started || update.started;
  if (update.genesis) run.genesis = update.genesis;
  if (update.control) run.control = *update.control;
  if (update.gap) run.gaps.push_back(*update.gap);
  for (const v1::EntryHeader& header : update.headers) {
    const uint64_t last = run.headers.empty() ? 0 : run.headers.back().version();
    CHECK(header.version() == last + 1 || (update.gap && header.version() == update.gap->last + 1));
    run.headers.push_back(header);
  }
  if (update.checkpoint) Renew(*update.checkpoint, &run.checkpoint);
  if (update.leases) run.leases = *update.leases;
  for (const MemberRecord& member : update.members) {
    const auto it =
        std::find_if(run.members.begin(), run.members.end(),
                     [&](const MemberRecord& other) { return other.peer == member.peer; });
    if (it == run.members.end()) {
      run.members.push_back(member);
    } else {
      *it = member;
    }
  }
  for (const std::string& peer : update.forgotten) {
    run.members.erase(
        std::remove_if(run.members.begin(), run.members.end(),
                       [&](const MemberRecord& member) { return member.peer == peer; }),
        run.members.end());
  }
  for (const v1::RoundRecord& round : update.rounds) run.rounds.push_back(round);
  for (const v1::EvaluationRecord& evaluation : update.evaluations)
    run.evaluations.push_back(evaluation);
  if (update.seal) run.seal = update.seal;
  if (update.judged) run.judged = *update.judged;
  for (const TokenRecord& token : update.tokens) Replace(token, &run.tokens);
  for (const CertificateRecord& one : update.certificates) Replace(one, &run.certificates);
  for (const std::string& serial : update.purged) {
    Remove(serial, &run.tokens);
    Remove(serial, &run.certificates);
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredRun> MemoryStore::Load() {
  StoredRun run = disk_->run;
  run.headers.clear();
  return run;
}

absl::StatusOr<std::vector<v1::EntryHeader>> MemoryStore::ReadHeaders(uint64_t first,
                                                                      uint32_t limit) {
  const std::vector<v1::EntryHeader>& all = disk_->run.headers;
  const auto begin = std::partition_point(
      all.begin(), all.end(), [&](const v1::EntryHeader& one) { return one.version() < first; });
  return std::vector<v1::EntryHeader>(begin, begin + std::min<ptrdiff_t>(limit, all.end() - begin));
}

Outbox::Outbox(Env env, std::shared_ptr<Store> store, Deliver deliver)
    : env_(env), store_(std::move(store)), deliver_(std::move(deliver)), queue_(env.executor) {}

void Outbox::Push(RunOutput output, Task done) {
  if (Planted(PlantedBug::kAnnounceBeforeDurable)) {
    deliver_(output);
    output.sends.clear();
  }
  const bool durable = output.update.empty();
  items_.push_back(
      {std::make_shared<const RunOutput>(std::move(output)), std::move(done), durable});
  Pump();
}

void Outbox::Try(RunUpdate nothing, std::function<void(absl::Status)> told) {
  if (closed_) {
    env_.executor.Post(
        guard_.Wrap([told = std::move(told), why = stalled_] { told(absl::AbortedError(why)); }));
    return;
  }
  RunOutput output;
  output.update = std::move(nothing);
  items_.push_back(
      {std::make_shared<const RunOutput>(std::move(output)), nullptr, false, std::move(told)});
  Pump();
}

// Ends the tries that wait for the store; everything else stays in its order.
void Outbox::EndTries(const absl::Status& why) {
  for (auto item = items_.begin(); item != items_.end();) {
    if (item->told == nullptr || item->durable) {
      ++item;
      continue;
    }
    env_.executor.Post(guard_.Wrap([told = std::move(item->told), why] { told(why); }));
    item = items_.erase(item);
  }
}

void Outbox::Pump() {
  if (pumping_) return;  // a delivery may push; the loop below takes it in its turn
  pumping_ = true;
  while (!items_.empty() && !storing_) {
    if (!items_.front().durable) {
      Persist();
      break;
    }
    const Item item = std::move(items_.front());
    items_.pop_front();
    if (item.told) {
      item.told(absl::OkStatus());
      continue;
    }
    deliver_(*item.output);
    if (item.done) item.done();
  }
  pumping_ = false;
}

void Outbox::Persist() {
  storing_ = true;
  std::vector<std::shared_ptr<const RunOutput>> outputs;
  for (const Item& item : items_) {
    if (outputs.size() == kMostTogether) break;
    if (!item.durable) outputs.push_back(item.output);
  }
  auto applied = std::make_shared<absl::StatusOr<size_t>>(size_t{0});
  queue_.Run(
      [store = store_, outputs = std::move(outputs), applied] {
        std::vector<const RunUpdate*> updates;
        for (const auto& output : outputs) updates.push_back(&output->update);
        *applied = store->ApplyFirst(updates);
      },
      guard_.Wrap([this, applied] { OnPersisted(*applied); }));
}

void Outbox::OnPersisted(const absl::StatusOr<size_t>& applied) {
  if (applied.ok()) {
    stalled_.clear();
    storing_ = false;
    size_t left = *applied;
    for (auto item = items_.begin(); left > 0; ++item) {
      left -= item->durable ? 0 : 1;
      item->durable = true;
    }
    Pump();
    return;
  }
  const absl::Status& status = applied.status();
  EndTries(status);
  const bool waits =
      std::any_of(items_.begin(), items_.end(), [](const Item& item) { return !item.durable; });
  if (absl::IsResourceExhausted(status) && !waits) {
    storing_ = false;  // nothing is held back: only a try has failed
    return Pump();
  }
  if (absl::IsResourceExhausted(status)) {
    if (stalled_.empty()) env_.log.Error(absl::StrCat("the run stands still: ", status.message()));
    stalled_ = std::string(status.message());
    env_.executor.RunAfter(kRetryFullDisk, guard_.Wrap([this] { Persist(); }));
    return;
  }
  if (absl::IsAborted(status)) {
    closed_ = true;
    stalled_ = std::string(status.message());
    env_.log.Warning(absl::StrCat("nothing is decided here any more: ", stalled_));
    return;
  }
  env_.log.Error(absl::StrCat("the store failed, and nothing can be promised any longer: ",
                              status.ToString()));
  std::abort();
}

}  // namespace atolld
