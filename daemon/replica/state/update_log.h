// The log of a replica on disk: a file of headers, and one file for each payload.
//
// Laws: a payload is whole and durable before its header is written; a header is durable before
// AppendHeader returns; headers follow one another without a gap. LogReader only reads and may run
// beside a writer, on any thread; UpdateLog is the one writer, one thread at a time. All blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

// Finds the headers by version. A record that is not yet whole at the file's end is left for a
// later Refresh. A file that the writer has replaced meanwhile by one that begins later, or anew,
// is noticed by its first record and read again: what is read is never another entry's.
class LogReader {
 public:
  // A log that is not there is empty. DATA_LOSS names the entry, the file and the offset;
  // `first_version` is the entry that is named when the very first record cannot be read.
  static absl::StatusOr<LogReader> Open(Files& files, const std::string& dir,
                                        uint64_t first_version);

  absl::Status Refresh();

  // The writer's short cut: the header of last_version() + 1 was added as a record of `body`.
  void NoteAppended(uint64_t version, absl::string_view body);

  bool empty() const { return offsets_.empty(); }
  uint64_t first_version() const { return first_version_; }  // of the oldest header
  uint64_t last_version() const { return first_version_ + offsets_.size() - 1; }  // unless empty
  // NOT_FOUND: outside, or dropped since the last Refresh.
  absl::StatusOr<v1::EntryHeader> ReadHeader(uint64_t version) const;

  // Bytes of the records before that of `version`, which must be here or the next one.
  uint64_t BytesBefore(uint64_t version) const;

  // Bytes of whole records, and whether more bytes follow them.
  uint64_t end() const { return end_; }
  bool torn() const { return torn_; }

 private:
  LogReader(Files& files, const std::string& dir, uint64_t first_version);
  absl::StatusOr<v1::EntryHeader> ParseHeader(const ReadableFile& file, uint64_t offset,
                                              uint64_t version, uint64_t* end) const;
  absl::StatusOr<v1::EntryHeader> ReadAt(const ReadableFile& file, uint64_t version) const;
  bool Replaced(const ReadableFile& file) const;
  absl::Status Scan(const ReadableFile& file);

  Files* files_;
  std::string dir_;
  std::string path_;
  uint64_t fallback_version_;  // that an empty log begins with
  uint64_t first_version_;
  // Of the first record, once it was read: no two files of one log begin with the same entry.
  std::optional<Digest> first_digest_;
  std::vector<uint64_t> offsets_;
  uint64_t end_ = 0;
  bool torn_ = false;
};

// The whole payload of an entry. NOT_FOUND: it is not there. DATA_LOSS: it is longer than `limit`.
absl::StatusOr<SharedBytes> ReadPayload(Files& files, const std::string& dir, uint64_t version,
                                        uint64_t limit);

// An entry's payload against the digest in its header, a block at a time. One thread at a time,
// blocking for a block.
class PayloadCheck {
 public:
  // NOT_FOUND: the payload is not there.
  static absl::StatusOr<std::unique_ptr<PayloadCheck>> Open(Files& files, const std::string& dir,
                                                            const v1::EntryHeader& header);

  // Reads the next block. True: the whole payload is what the header says. DATA_LOSS "entry 12:
  // payload ...: its digest differs" names the file.
  absl::StatusOr<bool> Step();

 private:
  PayloadCheck(std::string context, std::string digest, std::unique_ptr<ReadableFile> file);

  const std::string context_;
  const std::string digest_;  // bytes of what the header says
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  std::vector<Digest> leaves_;
};

class UpdateLog {
 public:
  // Opens the log for a replica whose newest snapshot is `snapshot_version`: cuts a torn tail off,
  // removes what a crash left half written, and begins a new log if this one ends before the
  // snapshot (which was then fetched from others). DATA_LOSS: a corrupt record, or more than the
  // last entry is missing.
  static absl::StatusOr<std::unique_ptr<UpdateLog>> Open(Files& files, const std::string& dir,
                                                         uint64_t snapshot_version);

  const LogReader& reader() const { return reader_; }
  uint64_t last_version() const { return last_version_; }  // committed; the snapshot's if none

  // Durable when it returns; replaces an earlier payload of that version.
  absl::Status WritePayload(uint64_t version, const SharedBytes& payload);

  // Durable when it returns. The header is that of last_version() + 1. After an error the log is as
  // it was before, and the call may be made again.
  absl::Status AppendHeader(const v1::EntryHeader& header);

  // Writes the file of headers anew, from entry `first` on, if the records before it take more than
  // `allowance` bytes; the newest of those stay that take half of it, so that this is seldom and a
  // coordinator's store that was restored from a copy finds what it lacks. Durable when it returns;
  // after a crash or an error the file is the old one or the new one. Readers may run beside it.
  // DATA_LOSS: a record that has to stay cannot be read; the file is left as it is.
  absl::Status DropHeadersBefore(uint64_t first, uint64_t allowance);

 private:
  UpdateLog(Files& files, std::string dir, LogReader reader, uint64_t last_version);
  absl::Status Repair(uint64_t snapshot_version);
  absl::Status BeginAnew(uint64_t snapshot_version);
  absl::Status Cut();
  absl::Status ReadReplaced();

  Files& files_;
  const std::string dir_;
  LogReader reader_;
  uint64_t last_version_;
  std::unique_ptr<WritableFile> headers_;  // null: to be opened (again) before the next append
  bool replaced_ = false;                  // by a file that was not yet read whole
};

}  // namespace atolld
