// The log of a replica on disk: a file of headers, and one file for each payload.
//
// Laws: a payload is whole and durable before its header is written; a header is durable before
// AppendHeader returns; headers follow one another without a gap. LogReader only reads and may run
// beside a writer, on any thread. UpdateLog is the only writer, and is used by one thread at a
// time. All calls block.
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

// Finds the headers by version. A record at the file's end that is not complete yet is left for a
// later Refresh. If the writer has meanwhile replaced the file, the reader notices this by the
// first record and reads the new file, so it never returns the header of another entry.
class LogReader {
 public:
  // A log that does not exist counts as empty. Fails with DATA_LOSS if a record is corrupt; the
  // message names the entry, the file and the offset. If this is the first record of the file, it
  // names `first_version` as the entry.
  static absl::StatusOr<LogReader> Open(Files& files, const std::string& dir,
                                        uint64_t first_version);

  absl::Status Refresh();

  // Called by the writer, instead of Refresh, when it has appended the header of last_version() + 1
  // as a record with this body.
  void NoteAppended(uint64_t version, absl::string_view body);

  bool empty() const { return offsets_.empty(); }
  uint64_t first_version() const { return first_version_; }  // The version of the oldest header.
  // The log must not be empty.
  uint64_t last_version() const { return first_version_ + offsets_.size() - 1; }
  // Fails with NOT_FOUND if the version is outside the log or was dropped since the last Refresh.
  absl::StatusOr<v1::EntryHeader> ReadHeader(uint64_t version) const;

  // Returns the number of bytes of the records before the record of `version`, which must be in the
  // log or be last_version() + 1.
  uint64_t BytesBefore(uint64_t version) const;

  // end() is the number of bytes of complete records; torn() is true if more bytes follow them.
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
  uint64_t fallback_version_;  // The version with which an empty log begins.
  uint64_t first_version_;
  // The digest of the first record, once it was read. It identifies the file, since no two files of
  // one log begin with the same entry.
  std::optional<Digest> first_digest_;
  std::vector<uint64_t> offsets_;
  uint64_t end_ = 0;
  bool torn_ = false;
};

// Reads the whole payload of an entry. Fails with NOT_FOUND if the payload's file does not exist,
// and with DATA_LOSS if it is longer than `limit`.
absl::StatusOr<SharedBytes> ReadPayload(Files& files, const std::string& dir, uint64_t version,
                                        uint64_t limit);

// Checks an entry's payload against the digest in its header, a block at a time. Used by one thread
// at a time; each call blocks for one block.
class PayloadCheck {
 public:
  // Fails with NOT_FOUND if the payload's file does not exist.
  static absl::StatusOr<std::unique_ptr<PayloadCheck>> Open(Files& files, const std::string& dir,
                                                            const v1::EntryHeader& header);

  // Reads the next block. Returns true if the whole payload was read and matches the header. Fails
  // with DATA_LOSS if it does not; the message names the file ("entry 12: payload ...: its digest
  // differs").
  absl::StatusOr<bool> Step();

 private:
  PayloadCheck(std::string context, std::string digest, std::unique_ptr<ReadableFile> file);

  const std::string context_;
  const std::string digest_;  // The bytes of the digest in the header.
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  std::vector<Digest> leaves_;
};

class UpdateLog {
 public:
  // Opens the log for a replica with the newest snapshot `snapshot_version`: cuts off a torn tail,
  // removes files that a crash left half written, and begins a new log if the old one ends before
  // the snapshot (which was then fetched from other peers). Fails with DATA_LOSS if a record is
  // corrupt, or if more than the last entry is missing.
  static absl::StatusOr<std::unique_ptr<UpdateLog>> Open(Files& files, const std::string& dir,
                                                         uint64_t snapshot_version);

  const LogReader& reader() const { return reader_; }
  // The newest committed version, which is the snapshot's if the log is empty.
  uint64_t last_version() const { return last_version_; }

  // Writes a payload durably. Replaces an earlier payload of that version.
  absl::Status WritePayload(uint64_t version, const SharedBytes& payload);

  // Appends the header of last_version() + 1, durably. After an error the log is unchanged, and the
  // call may be repeated.
  absl::Status AppendHeader(const v1::EntryHeader& header);

  // Rewrites the file of headers if the records before entry `first` take more than `allowance`
  // bytes. It keeps the newest of those records that fit into half of the allowance. So the file is
  // seldom rewritten, and a coordinator whose store was restored from a copy can get the headers
  // that it lacks. The new file is durable when the call returns; after a crash or an error the
  // file is either the old one or the new one. Readers may run meanwhile. Fails with DATA_LOSS, and
  // leaves the file unchanged, if a record that must be kept cannot be read.
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
  // The file of headers; null if it must be opened (again) before the next append.
  std::unique_ptr<WritableFile> headers_;
  // True if the file of headers was replaced and the new file was not yet completely read.
  bool replaced_ = false;
};

}  // namespace atolld
