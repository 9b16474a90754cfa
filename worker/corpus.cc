#include "worker/corpus.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/status_macros.h"

namespace atolld {
namespace {

absl::Status NotUtf8(const std::string& name, size_t offset) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", name, " is not UTF-8 at byte ", offset));
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat("data: cannot read ", path.string()));
  std::string text(static_cast<size_t>(file.tellg()), '\0');
  file.seekg(0);
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return absl::UnavailableError(absl::StrCat("data: reading ", path.string(), " failed"));
  }
  return text;
}

absl::StatusOr<std::string> ReadFolder(const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(path, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
    if (error) break;
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("data: listing ", path, ": ", error.message()));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data: folder ", path, " holds no files"));
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (size_t i = 0; i < files.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string part, ReadFile(files[i]));
    const auto bytes =
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(part.data()), part.size());
    if (const size_t bad = FindInvalidUtf8(bytes); bad != bytes.size()) {
      return NotUtf8(files[i].string(), bad);
    }
    if (i > 0) text += '\n';
    text += part;
  }
  return text;
}

// The length of the well-formed sequence that starts here (Unicode 15, table 3-7); 0 if there is
// none.
size_t SequenceLength(absl::Span<const uint8_t> rest) {
  const uint8_t lead = rest[0];
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || rest.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (rest[1] < low || rest[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (rest[i] < 0x80 || rest[i] > 0xbf) return 0;
  }
  return length;
}

}  // namespace

size_t FindInvalidUtf8(absl::Span<const uint8_t> bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t word;
    if (i + sizeof(word) <= bytes.size()) {  // most text is ASCII: eight bytes at once
      std::memcpy(&word, bytes.data() + i, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = SequenceLength(bytes.subspan(i));
    if (length == 0) return i;
    i += length;
  }
  return bytes.size();
}

absl::StatusOr<std::unique_ptr<Corpus>> Corpus::Open(const std::string& path,
                                                     double validation_fraction) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<Corpus> corpus(new Corpus);
  if (S_ISDIR(info.st_mode)) {
    ASSIGN_OR_RETURN(corpus->text_, ReadFolder(path));
    corpus->bytes_ = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(corpus->text_.data()),
                                         corpus->text_.size());
  } else if (info.st_size > 0) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
    }
    const auto size = static_cast<size_t>(info.st_size);
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    ::close(file);
    if (mapping == MAP_FAILED) {
      return absl::UnavailableError(absl::StrCat("data: mmap ", path, ": ", std::strerror(error)));
    }
    corpus->mapping_ = mapping;
    corpus->bytes_ = absl::MakeConstSpan(static_cast<const uint8_t*>(mapping), size);
  }
  RETURN_IF_ERROR(corpus->Finish(path, validation_fraction));
  return corpus;
}

absl::StatusOr<std::unique_ptr<Corpus>> Corpus::FromText(std::string text,
                                                         double validation_fraction) {
  std::unique_ptr<Corpus> corpus(new Corpus);
  corpus->text_ = std::move(text);
  corpus->bytes_ = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(corpus->text_.data()),
                                       corpus->text_.size());
  RETURN_IF_ERROR(corpus->Finish("the text", validation_fraction));
  return corpus;
}

absl::Status Corpus::Finish(const std::string& name, double validation_fraction) {
  if (bytes_.empty()) return absl::InvalidArgumentError(absl::StrCat("data: ", name, " is empty"));
  if (!(validation_fraction >= 0 && validation_fraction <= 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.validation_fraction is ", validation_fraction, "; it must be 0-0.5"));
  }
  if (const size_t bad = FindInvalidUtf8(bytes_); bad != bytes_.size()) return NotUtf8(name, bad);
  split_ = static_cast<size_t>(static_cast<double>(bytes_.size()) * (1.0 - validation_fraction));
  digest_.resize(32);
  if (EVP_Digest(bytes_.data(), bytes_.size(), reinterpret_cast<uint8_t*>(digest_.data()), nullptr,
                 EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("data: SHA-256 failed");
  }
  return absl::OkStatus();
}

Corpus::~Corpus() {
  if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
}

}  // namespace atolld
