// A whole file, mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "support/error.h"
#include "support/resident_memory.h"

namespace isopro {

class MappedFile {
 public:
  // `path` is UTF-8. Throws MODEL_NOT_FOUND where there is no readable regular file, `code` where
  // it is empty or cannot be mapped.
  static std::shared_ptr<const MappedFile> open(const std::string& path,
                                                ErrorCode code = ErrorCode::modelCorrupt);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Gives the pages back to the system; what is read again comes from the file.
  void release() const { releasePages(data_, size_); }

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  MappedFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace isopro
