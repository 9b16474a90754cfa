#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

using Kind = SimWrite::Kind;

std::string Clean(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  return clean;
}

absl::Status NotFound(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
}

}  // namespace

void SimDisk::Inode::KeepDurable(size_t size) {
  if (shadow != nullptr || size >= synced) return;
  shadow = std::make_unique<const std::string>(bytes.substr(0, synced));
}

absl::Status SimDisk::CheckLife(uint64_t life, const std::string& path) const {
  if (life == life_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": process is dead"));
}

absl::Status SimDisk::Change(SimWrite::Kind kind, const std::string& path, uint64_t life,
                             absl::FunctionRef<absl::Status()> make) {
  RETURN_IF_ERROR(CheckLife(life, path));
  ++writes_;
  if (on_write_) on_write_({writes_, kind, path});
  if (writes_ == crash_at_) {
    crash_at_ = 0;
    // Nobody hears how it went.
    if (crash_ != Crash::kLoseUnsynced) make().IgnoreError();
    Die(crash_);
  } else if (kind == SimWrite::Kind::kSync || kind == SimWrite::Kind::kSyncDirectory) {
    if (sync_most_ > absl::ZeroDuration()) delay_ += random_.Between(sync_least_, sync_most_);
    if (random_.Chance(sync_probability_)) Die(Crash::kLoseUnsynced);
  }
  RETURN_IF_ERROR(CheckLife(life, path));
  RETURN_IF_ERROR(DrawWriteFault(kind, path));
  return make();
}

absl::Status SimDisk::DrawWriteFault(SimWrite::Kind kind, const std::string& path) {
  using Kind = SimWrite::Kind;
  if (kind != Kind::kCreate && kind != Kind::kAppend && kind != Kind::kRename) {
    return absl::OkStatus();
  }
  if (failing_writes_ != 0) {
    --failing_writes_;
  } else if (!random_.Chance(write_probability_)) {
    return absl::OkStatus();
  }
  return Annotate(write_status_, path);
}

void SimDisk::Die(Crash crash) {
  CrashNow(crash);
  if (on_death_) on_death_();
}

void SimDisk::CrashNow(Crash crash) {
  ++life_;
  crash_at_ = 0;
  delay_ = absl::ZeroDuration();
  if (crash == Crash::kDrawn) {
    constexpr Crash kAll[] = {Crash::kLoseUnsynced, Crash::kKeepUnsynced, Crash::kLoseBytes,
                              Crash::kTornLast};
    crash = kAll[random_.Below(4)];
  }
  if (crash == Crash::kTornLast) {
    for (const NameChange& change : name_changes_) {
      if (random_.Chance(0.5)) ApplyDurably(change);
    }
    TearLastAppend();
  } else if (crash != Crash::kLoseUnsynced) {
    durable_names_ = names_;
  }
  const bool keep_bytes = crash == Crash::kKeepUnsynced || crash == Crash::kTornLast;
  name_changes_.clear();
  last_append_.reset();
  for (auto& [name, inode] : names_) inode->named = false;
  names_ = durable_names_;
  used_ = 0;
  for (auto& [name, inode] : names_) {
    if (!keep_bytes) {
      if (inode->shadow != nullptr) inode->bytes = *inode->shadow;
      if (inode->shadow == nullptr) inode->bytes.resize(inode->synced);
    }
    inode->shadow = nullptr;
    inode->synced = inode->bytes.size();
    inode->named = true;
    used_ += inode->bytes.size();
  }
}

// Tears the last bytes that were being written when the power failed.
void SimDisk::TearLastAppend() {
  const std::shared_ptr<Inode> inode = last_append_.lock();
  if (inode == nullptr || inode->bytes.size() <= last_append_start_) return;
  const size_t written = inode->bytes.size() - last_append_start_;
  inode->bytes.resize(last_append_start_ + random_.Below(written));
}

void SimDisk::Wipe(const std::set<std::string>& but) {
  ++life_;
  Names kept;
  used_ = 0;
  directories_ = {"/"};
  for (auto& [name, inode] : names_) {
    inode->named = but.count(name) > 0;
    if (!inode->named) continue;
    inode->synced = inode->bytes.size();
    inode->shadow.reset();
    used_ += inode->bytes.size();
    for (size_t end = name.rfind('/'); end != 0 && end != std::string::npos;
         end = name.rfind('/', end - 1)) {
      directories_.insert(name.substr(0, end));
    }
    kept[name] = inode;
  }
  names_ = kept;
  durable_names_ = std::move(kept);
  name_changes_.clear();
}

bool SimDisk::FlipBit(const std::string& path, uint64_t offset, int bit) {
  const auto found = names_.find(path);
  if (found == names_.end() || offset >= found->second->bytes.size()) return false;
  const char mask = static_cast<char>(1 << bit);
  Inode& inode = *found->second;
  inode.bytes[offset] = static_cast<char>(inode.bytes[offset] ^ mask);
  if (inode.shadow != nullptr && offset < inode.shadow->size()) {
    std::string durable = *inode.shadow;
    durable[offset] = static_cast<char>(durable[offset] ^ mask);
    inode.shadow = std::make_unique<const std::string>(std::move(durable));
  }
  return true;
}

void SimDisk::FailWrites(double probability, absl::Status status) {
  write_probability_ = probability;
  write_status_ = std::move(status);
}

void SimDisk::FailNextWrites(uint64_t count, absl::Status status) {
  failing_writes_ = count;
  write_status_ = std::move(status);
}

void SimDisk::FailReads(double probability, absl::Status status) {
  read_probability_ = probability;
  read_status_ = std::move(status);
}

void SimDisk::SlowSync(absl::Duration least, absl::Duration most) {
  sync_least_ = least;
  sync_most_ = most;
}

void SimDisk::EndFaults() {
  capacity_ = UINT64_MAX;
  write_probability_ = read_probability_ = flip_probability_ = sync_probability_ = 0;
  failing_writes_ = 0;
  crash_at_ = 0;
  SlowSync(absl::ZeroDuration(), absl::ZeroDuration());
}

void SimDisk::CrashAtWrite(uint64_t count, Crash crash) {
  crash_at_ = count == 0 ? 0 : writes_ + count;
  crash_ = crash;
}

absl::Duration SimDisk::TakeDelay() { return std::exchange(delay_, absl::ZeroDuration()); }

std::shared_ptr<SimDisk::Inode> SimDisk::FileAt(const std::string& path) {
  const auto found = names_.find(path);
  if (found != names_.end()) return found->second;
  auto inode = std::make_shared<Inode>();
  Name(path, inode);
  name_changes_.push_back({"", path, inode});
  return inode;
}

void SimDisk::Name(const std::string& path, std::shared_ptr<Inode> inode) {
  Unname(path);
  inode->named = true;
  used_ += inode->bytes.size();
  names_[path] = std::move(inode);
}

void SimDisk::Unname(const std::string& path) {
  auto node = names_.extract(path);
  if (node.empty()) return;
  node.mapped()->named = false;
  used_ -= node.mapped()->bytes.size();
}

void SimDisk::Resize(Inode& inode, size_t size) {
  inode.KeepDurable(size);
  if (inode.named) used_ += size - inode.bytes.size();  // wraps back where it shrinks
  inode.bytes.resize(size);
}

absl::Status SimDisk::Append(Inode& inode, const std::string& path, absl::string_view bytes) {
  const uint64_t room = capacity_ - std::min(capacity_, used_);
  // A full disk takes what fits: the caller finds half a record there.
  const absl::string_view fits = bytes.substr(0, static_cast<size_t>(room));
  inode.bytes.append(fits.data(), fits.size());
  if (inode.named) used_ += fits.size();
  if (fits.size() == bytes.size()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, ": no space left on device"));
}

void SimDisk::Sync(Inode& inode) {
  inode.shadow = nullptr;
  inode.synced = inode.bytes.size();
  if (last_append_.lock().get() == &inode) last_append_.reset();
}

// A rename between two directories is durable once either is synced, as in a journal.
void SimDisk::SyncNames(const std::string& directory) {
  std::vector<NameChange> rest;
  for (NameChange& change : name_changes_) {
    const bool here = (!change.added.empty() && SimParentOf(change.added) == directory) ||
                      (!change.removed.empty() && SimParentOf(change.removed) == directory);
    if (here) {
      ApplyDurably(change);
    } else {
      rest.push_back(std::move(change));
    }
  }
  name_changes_ = std::move(rest);
}

void SimDisk::ApplyDurably(const NameChange& change) {
  if (!change.removed.empty()) durable_names_.erase(change.removed);
  if (!change.added.empty()) durable_names_[change.added] = change.inode;
}

std::string SimParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "/";
  return path.substr(0, slash);
}

class SimReadableFile final : public ReadableFile {
 public:
  SimReadableFile(SimDisk& disk, std::string path, std::shared_ptr<const SimDisk::Inode> inode)
      : disk_(disk),
        life_(disk.life_),
        path_(std::move(path)),
        inode_(std::move(inode)),
        size_(inode_->bytes.size()) {}

  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    RETURN_IF_ERROR(disk_.CheckLife(life_, path_));
    const std::string& bytes = inode_->bytes;
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": read past the end at ", offset));
    }
    if (disk_.random_.Chance(disk_.read_probability_)) return Annotate(disk_.read_status_, path_);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    if (!out.empty() && disk_.random_.Chance(disk_.flip_probability_)) {
      const uint64_t bit = disk_.random_.Below(8 * out.size());
      out[bit / 8] = static_cast<uint8_t>(out[bit / 8] ^ (1u << (bit % 8)));
    }
    return absl::OkStatus();
  }

 private:
  SimDisk& disk_;
  const uint64_t life_;
  const std::string path_;
  const std::shared_ptr<const SimDisk::Inode> inode_;
  const uint64_t size_;
};

class SimWritableFile final : public WritableFile {
 public:
  SimWritableFile(SimDisk& disk, std::string path, std::shared_ptr<SimDisk::Inode> inode)
      : disk_(disk), life_(disk.life_), path_(std::move(path)), inode_(std::move(inode)) {}

  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    bool made = false;
    const auto make = [&] {
      made = true;
      return AppendPart(text);
    };
    const absl::Status status = disk_.Change(Kind::kAppend, path_, life_, make);
    if (!made && life_ == disk_.life_) {
      // A write that fails may have come a part of the way.
      AppendPart(text.substr(0, static_cast<size_t>(disk_.random_.Below(bytes.size()))))
          .IgnoreError();
    }
    return status;
  }

  absl::Status Sync() override {
    return disk_.Change(Kind::kSync, path_, life_, [&] {
      disk_.Sync(*inode_);
      return absl::OkStatus();
    });
  }

 private:
  absl::Status AppendPart(absl::string_view bytes) {
    disk_.last_append_ = inode_;
    disk_.last_append_start_ = inode_->bytes.size();
    return disk_.Append(*inode_, path_, bytes);
  }

  SimDisk& disk_;
  const uint64_t life_;
  const std::string path_;
  const std::shared_ptr<SimDisk::Inode> inode_;
};

absl::Status SimFiles::CheckParent(const std::string& path) const {
  RETURN_IF_ERROR(disk_.CheckLife(life_, path));
  if (disk_.directories_.count(SimParentOf(path)) == 0) return NotFound(path);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::Create(const std::string& path) {
  return Open(path, true);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::OpenToAppend(const std::string& path) {
  return Open(path, false);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::Open(const std::string& path, bool empty) {
  RETURN_IF_ERROR(CheckParent(path));
  const auto found = disk_.names_.find(path);
  if (!empty && found != disk_.names_.end()) {
    return std::make_unique<SimWritableFile>(disk_, path, found->second);
  }
  std::shared_ptr<SimDisk::Inode> inode;
  RETURN_IF_ERROR(disk_.Change(Kind::kCreate, path, life_, [&] {
    inode = disk_.FileAt(path);
    if (empty) disk_.Resize(*inode, 0);
    return absl::OkStatus();
  }));
  return std::make_unique<SimWritableFile>(disk_, path, std::move(inode));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimFiles::OpenToRead(const std::string& path) {
  RETURN_IF_ERROR(disk_.CheckLife(life_, path));
  const auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) return NotFound(path);
  return std::make_unique<SimReadableFile>(disk_, path, found->second);
}

absl::Status SimFiles::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckParent(to));
  const auto found = disk_.names_.find(from);
  if (found == disk_.names_.end()) return NotFound(from);
  const std::shared_ptr<SimDisk::Inode> inode = found->second;
  return disk_.Change(Kind::kRename, to, life_, [&] {
    if (from == to) return absl::OkStatus();
    disk_.Unname(from);
    disk_.Name(to, inode);
    disk_.name_changes_.push_back({from, to, inode});
    return absl::OkStatus();
  });
}

absl::Status SimFiles::Remove(const std::string& path) {
  return disk_.Change(Kind::kRemove, path, life_, [&] {
    if (disk_.names_.count(path) == 0) return absl::OkStatus();
    disk_.Unname(path);
    disk_.name_changes_.push_back({path, "", nullptr});
    return absl::OkStatus();
  });
}

absl::Status SimFiles::Truncate(const std::string& path, uint64_t size) {
  RETURN_IF_ERROR(disk_.CheckLife(life_, path));
  const auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) return NotFound(path);
  const std::shared_ptr<SimDisk::Inode> inode = found->second;
  return disk_.Change(Kind::kTruncate, path, life_, [&] {
    disk_.Resize(*inode, size);
    return absl::OkStatus();
  });
}

absl::Status SimFiles::MakeDirectories(const std::string& path) {
  RETURN_IF_ERROR(disk_.CheckLife(life_, path));
  const std::string clean = Clean(path);
  if (disk_.directories_.count(clean) != 0) return absl::OkStatus();
  return disk_.Change(Kind::kMkdir, clean, life_, [&] {
    for (std::string each = clean; each != "/"; each = SimParentOf(each)) {
      if (disk_.names_.count(each) != 0) {
        return absl::UnknownError(absl::StrCat(each, ": is a file"));
      }
      disk_.directories_.insert(each);
    }
    return absl::OkStatus();
  });
}

absl::Status SimFiles::SyncDirectory(const std::string& directory) {
  const std::string clean = Clean(directory);
  RETURN_IF_ERROR(disk_.CheckLife(life_, clean));
  if (disk_.directories_.count(clean) == 0) return NotFound(clean);
  return disk_.Change(Kind::kSyncDirectory, clean, life_, [&] {
    disk_.SyncNames(clean);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> SimFiles::List(const std::string& directory) {
  const std::string clean = Clean(directory);
  RETURN_IF_ERROR(disk_.CheckLife(life_, clean));
  if (disk_.directories_.count(clean) == 0) return NotFound(clean);
  const std::string prefix = clean == "/" ? clean : clean + "/";
  std::set<std::string> found;
  const auto add = [&](const std::string& name) {
    if (name.size() > prefix.size() && name.find('/', prefix.size()) == std::string::npos) {
      found.insert(name.substr(prefix.size()));
    }
  };
  const auto inside = [&](const std::string& name) {
    return name.compare(0, prefix.size(), prefix) == 0;
  };
  for (auto it = disk_.names_.lower_bound(prefix); it != disk_.names_.end() && inside(it->first);
       ++it) {
    add(it->first);
  }
  for (auto it = disk_.directories_.lower_bound(prefix);
       it != disk_.directories_.end() && inside(*it); ++it) {
    add(*it);
  }
  return std::vector<std::string>(found.begin(), found.end());
}

bool SimFiles::Exists(const std::string& path) {
  const std::string clean = Clean(path);
  return life_ == disk_.life_ &&
         (disk_.names_.count(clean) != 0 || disk_.directories_.count(clean) != 0);
}

}  // namespace atolld
