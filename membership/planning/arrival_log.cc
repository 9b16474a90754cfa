#include "membership/planning/arrival_log.h"

#include <algorithm>

namespace atolld {

namespace {

void Add(uint64_t bytes, size_t slot, std::vector<uint64_t>* slots) {
  if (slots->size() <= slot) slots->resize(slot + 1, 0);
  (*slots)[slot] += bytes;
}

}  // namespace

void ArrivalLog::Begin(absl::Time began) {
  began_ = began;
  slot_ = kShortestSlot;
  from_.clear();
  update_bytes_ = 0;
  averaged_chunks_ = 0;
  newest_piece_.clear();
}

void ArrivalLog::NoteOpen(const std::string& peer, absl::Time at) {
  std::optional<absl::Duration>& opened = from_[peer].opened;
  if (!opened) opened = at - began_;
}

void ArrivalLog::Double() {
  slot_ *= 2;
  for (auto& [peer, from] : from_) {
    std::vector<uint64_t>& bytes = from.bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint64_t here = bytes[i];
      if (i % 2 == 0) bytes[i / 2] = 0;
      bytes[i / 2] += here;
    }
    bytes.resize((bytes.size() + 1) / 2);
  }
}

void ArrivalLog::Note(const std::string& peer, absl::Time at, uint64_t bytes) {
  const absl::Duration since = std::max(at - began_, absl::ZeroDuration());
  while (since >= slot_ * static_cast<int64_t>(kSlots)) Double();
  From& from = from_[peer];
  Add(bytes, static_cast<size_t>(since / slot_), &from.bytes);
  const auto at_first = static_cast<size_t>(since / kShortestSlot);
  if (at_first < kSlots) Add(bytes, at_first, &from.opening);
}

void ArrivalLog::NotePiece(const std::string& peer, uint32_t chunk, absl::Time at, bool completes) {
  const auto before = newest_piece_.find(chunk);
  if (!completes) {
    newest_piece_[chunk] = at;
  } else if (before != newest_piece_.end()) {
    ++averaged_chunks_;
    const absl::Duration a_chunk = (at - began_) / static_cast<double>(averaged_chunks_);
    if (at - before->second >= kWaits * a_chunk) ++from_[peer].waited_chunks;
    newest_piece_.erase(before);
  }
}

std::optional<v1::Arrivals> ArrivalLog::Report(absl::Time now) const {
  if (from_.size() > kMostPeers) return std::nullopt;
  v1::Arrivals report;
  report.set_slot_microseconds(static_cast<uint64_t>(absl::ToInt64Microseconds(slot_)));
  report.set_sent_microseconds(
      static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(now - began_))));
  report.set_update_bytes(update_bytes_);
  report.set_averaged_chunks(averaged_chunks_);
  for (const auto& [peer, from] : from_) {
    v1::ArrivalsFrom* told = report.add_from();
    told->set_peer(peer);
    *told->mutable_bytes() = {from.bytes.begin(), from.bytes.end()};
    if (slot_ > kShortestSlot) {
      *told->mutable_opening() = {from.opening.begin(), from.opening.end()};
    }
    told->set_waited_chunks(from.waited_chunks);
    told->set_opened(from.opened.has_value());
    if (from.opened) told->set_opened_microseconds(absl::ToInt64Microseconds(*from.opened));
  }
  return report;
}

}  // namespace atolld
