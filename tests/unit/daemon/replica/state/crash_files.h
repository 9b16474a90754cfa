// CrashFiles: Files that fail after a given number of changes, as if the process had died.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/status_macros.h"
#include "daemon/env/env.h"

namespace atolld {

class CrashFiles final : public Files {
 public:
  // Change number `allowed`, counted from 0, and all later ones fail. If that change is an append
  // and `torn` is true, half of its bytes are written.
  CrashFiles(Files& inner, uint64_t allowed, bool torn)
      : inner_(inner), allowed_(allowed), torn_(torn) {}

  uint64_t changes() const { return changes_; }
  bool dead() const { return dead_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return Wrap(inner_.Create(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return Wrap(inner_.CreatePrivate(path));
  }
  absl::StatusOr<bool> IsPrivate(const std::string& path) override {
    RETURN_IF_ERROR(Alive());
    return inner_.IsPrivate(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return Wrap(inner_.OpenToAppend(path));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    RETURN_IF_ERROR(Alive());
    return inner_.OpenToRead(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(Change());
    return inner_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return inner_.Remove(path);
  }
  absl::Status Truncate(const std::string& path, uint64_t size) override {
    RETURN_IF_ERROR(Change());
    return inner_.Truncate(path, size);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return inner_.MakeDirectories(path);
  }
  absl::Status SyncDirectory(const std::string& directory) override {
    RETURN_IF_ERROR(Change());
    return inner_.SyncDirectory(directory);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    RETURN_IF_ERROR(Alive());
    return inner_.List(directory);
  }
  bool Exists(const std::string& path) override { return !dead_ && inner_.Exists(path); }

 private:
  class File final : public WritableFile {
   public:
    File(CrashFiles& owner, std::unique_ptr<WritableFile> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    absl::Status Append(absl::Span<const uint8_t> bytes) override {
      const bool alive = owner_.Alive().ok();
      const absl::Status status = owner_.Change();
      if (!status.ok() && alive && owner_.torn_) {
        inner_->Append(bytes.subspan(0, bytes.size() / 2)).IgnoreError();
      }
      RETURN_IF_ERROR(status);
      return inner_->Append(bytes);
    }
    absl::Status Sync() override {
      RETURN_IF_ERROR(owner_.Change());
      return inner_->Sync();
    }

   private:
    CrashFiles& owner_;
    const std::unique_ptr<WritableFile> inner_;
  };

  absl::StatusOr<std::unique_ptr<WritableFile>> Wrap(
      absl::StatusOr<std::unique_ptr<WritableFile>> file) {
    if (!file.ok()) return file.status();
    return std::make_unique<File>(*this, *std::move(file));
  }
  absl::Status Alive() const {
    return dead_ ? absl::UnavailableError("the process is dead") : absl::OkStatus();
  }
  absl::Status Change() {
    if (changes_ >= allowed_) dead_ = true;
    RETURN_IF_ERROR(Alive());
    ++changes_;
    return absl::OkStatus();
  }

  Files& inner_;
  const uint64_t allowed_;
  const bool torn_;
  uint64_t changes_ = 0;
  bool dead_ = false;
};

}  // namespace atolld
