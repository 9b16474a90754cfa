#include "worker/hub/parameters_file.h"

#include <openssl/evp.h>

#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/safetensors_file.h"

namespace atolld {

absl::StatusOr<std::string> FileDigest(const std::string& path) {
  constexpr size_t kDigestBytes = 32;
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::string digest(kDigestBytes, '\0');
  if (EVP_Digest(file->bytes().data(), file->bytes().size(),
                 reinterpret_cast<uint8_t*>(digest.data()), nullptr, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError(absl::StrCat(path, ": SHA-256 failed"));
  }
  return digest;
}

absl::Status LoadParameters(const std::string& path, const v1::Manifest& manifest,
                            absl::Span<float> out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
    RETURN_IF_ERROR(
        file->Read(tensor.name(), shape, out.subspan(tensor.offset(), TensorElements(tensor))));
  }
  if (file->tensors().size() == static_cast<size_t>(manifest.tensors_size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has ", file->tensors().size(), " tensors; the model has ", manifest.tensors_size()));
}

}  // namespace atolld
