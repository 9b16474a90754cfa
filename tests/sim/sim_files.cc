#include "tests/sim/sim_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/status_macros.h"

namespace atolld {
namespace {

std::string Clean(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  return clean;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "/";
  return path.substr(0, slash);
}

absl::Status NotFound(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
}

class SimReadableFile final : public ReadableFile {
 public:
  SimReadableFile(std::string path, std::shared_ptr<const std::string> owner, uint64_t size)
      : path_(std::move(path)), bytes_(std::move(owner)), size_(size) {}

  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    if (offset > bytes_->size() || out.size() > bytes_->size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": read past the end at ", offset));
    }
    std::copy_n(bytes_->begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> bytes_;
  const uint64_t size_;
};

}  // namespace

class SimWritableFile final : public WritableFile {
 public:
  SimWritableFile(SimDisk& disk, std::string path, std::shared_ptr<SimDisk::Inode> inode)
      : disk_(disk), life_(disk.life_), path_(std::move(path)), inode_(std::move(inode)) {}

  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    if (life_ != disk_.life_)
      return absl::UnavailableError(absl::StrCat(path_, ": process is dead"));
    uint64_t room = bytes.size();
    if (disk_.capacity_ != UINT64_MAX)
      room = disk_.capacity_ - std::min(disk_.capacity_, disk_.used());
    // A full disk takes what fits: the caller finds half a record there.
    const size_t fits = static_cast<size_t>(std::min<uint64_t>(room, bytes.size()));
    inode_->bytes.append(reinterpret_cast<const char*>(bytes.data()), fits);
    ++disk_.writes_;
    if (fits < bytes.size()) {
      return absl::ResourceExhaustedError(absl::StrCat(path_, ": no space left on device"));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (life_ != disk_.life_)
      return absl::UnavailableError(absl::StrCat(path_, ": process is dead"));
    inode_->durable = inode_->bytes;
    ++disk_.writes_;
    return absl::OkStatus();
  }

 private:
  SimDisk& disk_;
  const uint64_t life_;
  const std::string path_;
  const std::shared_ptr<SimDisk::Inode> inode_;
};

void SimDisk::CrashNow(Crash crash) {
  ++life_;
  if (crash == Crash::kKeepUnsynced) {
    for (auto& [name, inode] : names_) inode->durable = inode->bytes;
    durable_names_ = names_;
  }
  names_ = durable_names_;
  for (auto& [name, inode] : names_) inode->bytes = inode->durable;
}

void SimDisk::Wipe() {
  ++life_;
  names_.clear();
  durable_names_.clear();
  directories_ = {"/"};
}

uint64_t SimDisk::used() const {
  uint64_t total = 0;
  for (const auto& [name, inode] : names_) total += inode->bytes.size();
  return total;
}

bool SimDisk::FlipBit(const std::string& path, uint64_t offset, int bit) {
  const auto found = names_.find(Clean(path));
  if (found == names_.end() || offset >= found->second->bytes.size()) return false;
  const char mask = static_cast<char>(1 << bit);
  Inode& inode = *found->second;
  inode.bytes[offset] = static_cast<char>(inode.bytes[offset] ^ mask);
  if (offset < inode.durable.size()) {
    inode.durable[offset] = static_cast<char>(inode.durable[offset] ^ mask);
  }
  return true;
}

absl::Status SimFiles::CheckLife(const std::string& path) const {
  if (life_ != disk_.life_) return absl::UnavailableError(absl::StrCat(path, ": process is dead"));
  return absl::OkStatus();
}

absl::Status SimFiles::CheckParent(const std::string& path) const {
  RETURN_IF_ERROR(CheckLife(path));
  if (disk_.directories_.count(ParentOf(path)) == 0) return NotFound(path);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::Create(const std::string& path) {
  RETURN_IF_ERROR(CheckParent(path));
  ++disk_.writes_;
  std::shared_ptr<SimDisk::Inode>& inode = disk_.names_[path];
  if (inode == nullptr) inode = std::make_shared<SimDisk::Inode>();
  inode->bytes.clear();
  return std::make_unique<SimWritableFile>(disk_, path, inode);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::OpenToAppend(const std::string& path) {
  RETURN_IF_ERROR(CheckParent(path));
  ++disk_.writes_;
  std::shared_ptr<SimDisk::Inode>& inode = disk_.names_[path];
  if (inode == nullptr) inode = std::make_shared<SimDisk::Inode>();
  return std::make_unique<SimWritableFile>(disk_, path, inode);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimFiles::OpenToRead(const std::string& path) {
  RETURN_IF_ERROR(CheckLife(path));
  const auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) return NotFound(path);
  const std::shared_ptr<SimDisk::Inode>& inode = found->second;
  return std::make_unique<SimReadableFile>(
      path, std::shared_ptr<const std::string>(inode, &inode->bytes), inode->bytes.size());
}

absl::Status SimFiles::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckParent(to));
  auto node = disk_.names_.extract(from);
  if (node.empty()) return NotFound(from);
  ++disk_.writes_;
  disk_.names_[to] = std::move(node.mapped());
  return absl::OkStatus();
}

absl::Status SimFiles::Remove(const std::string& path) {
  RETURN_IF_ERROR(CheckLife(path));
  ++disk_.writes_;
  disk_.names_.erase(path);
  return absl::OkStatus();
}

absl::Status SimFiles::Truncate(const std::string& path, uint64_t size) {
  RETURN_IF_ERROR(CheckLife(path));
  const auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) return NotFound(path);
  ++disk_.writes_;
  found->second->bytes.resize(size);
  return absl::OkStatus();
}

absl::Status SimFiles::MakeDirectories(const std::string& path) {
  RETURN_IF_ERROR(CheckLife(path));
  std::string directory = Clean(path);
  while (directory != "/") {
    if (disk_.names_.count(directory) != 0) {
      return absl::UnknownError(absl::StrCat(directory, ": is a file"));
    }
    disk_.directories_.insert(directory);
    directory = ParentOf(directory);
  }
  return absl::OkStatus();
}

absl::Status SimFiles::SyncDirectory(const std::string& directory) {
  const std::string clean = Clean(directory);
  RETURN_IF_ERROR(CheckLife(clean));
  if (disk_.directories_.count(clean) == 0) return NotFound(clean);
  ++disk_.writes_;
  SimDisk::Names& durable = disk_.durable_names_;
  for (auto it = durable.begin(); it != durable.end();) {
    it = ParentOf(it->first) == clean ? durable.erase(it) : std::next(it);
  }
  for (const auto& [name, inode] : disk_.names_) {
    if (ParentOf(name) == clean) durable[name] = inode;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimFiles::List(const std::string& directory) {
  const std::string clean = Clean(directory);
  RETURN_IF_ERROR(CheckLife(clean));
  if (disk_.directories_.count(clean) == 0) return NotFound(clean);
  const size_t prefix = clean == "/" ? 1 : clean.size() + 1;
  std::set<std::string> found;
  for (const auto& [name, inode] : disk_.names_) {
    if (ParentOf(name) == clean) found.insert(name.substr(prefix));
  }
  for (const std::string& name : disk_.directories_) {
    if (name != "/" && ParentOf(name) == clean) found.insert(name.substr(prefix));
  }
  return std::vector<std::string>(found.begin(), found.end());
}

bool SimFiles::Exists(const std::string& path) {
  const std::string clean = Clean(path);
  return life_ == disk_.life_ &&
         (disk_.names_.count(clean) != 0 || disk_.directories_.count(clean) != 0);
}

}  // namespace atolld
