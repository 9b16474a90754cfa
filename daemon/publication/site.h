// Site: the files of a published run as a reader gets them, from a folder or from a web server.
//
// Law: a site is believed in nothing, and no call takes more memory, disk or time than the caller's
// numbers allow. A server that sends more bytes, fewer bytes or none at all ends in an error of one
// line. The calls block. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/env/env.h"
#include "daemon/publication/http_client.h"

namespace atolld {

class Site {
 public:
  virtual ~Site() = default;

  // How messages name the file: its path or its URL.
  virtual std::string Place(const std::string& file) const = 0;

  // Returns the file's path if it lies on this machine.
  virtual std::optional<std::string> PathOf(const std::string& file) const = 0;

  // Passes the bytes [first, first + count) of a file of `whole` bytes to `take`, in order and in
  // pieces. Fails with NOT_FOUND if there is no such file, with DATA_LOSS if it has another length,
  // with UNAVAILABLE or DEADLINE_EXCEEDED if the server cannot be reached or is too slow, and with
  // UNIMPLEMENTED if the server gives only whole files. `take` may have been called before an
  // error, but never with more than `count` bytes.
  struct Part {
    uint64_t whole = 0;
    uint64_t first = 0;
    uint64_t count = 0;
  };
  using Take = std::function<absl::Status(absl::Span<const uint8_t> bytes)>;
  virtual absl::Status Read(const std::string& file, const Part& part, const Take& take) = 0;

  // Returns a whole file of an unknown length. Fails like Read, and with DATA_LOSS if it has more
  // than `limit` bytes.
  virtual absl::StatusOr<std::string> ReadShort(const std::string& file, uint64_t limit) = 0;
};

// Opens a site in a folder, whose path must be absolute.
std::unique_ptr<Site> OpenFolderSite(Files& files, const std::string& folder);

// Opens a site under an http:// or https:// URL. Fails with INVALID_ARGUMENT if it is not one; the
// message says why. Asks the server nothing yet.
absl::StatusOr<std::unique_ptr<Site>> OpenWebSite(const std::string& url,
                                                  const HttpClient::Options& options);

}  // namespace atolld
