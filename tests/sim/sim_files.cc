#include "tests/sim/sim_files.h"

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
