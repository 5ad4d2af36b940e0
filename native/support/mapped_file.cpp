#include "support/mapped_file.h"

#include <filesystem>
#include <system_error>

#include "support/error.h"

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#endif

namespace isopro {
namespace {

[[noreturn]] void unreadable(const std::string& path, int systemError) {
  throw Error(refusal(systemError, ErrorCode::modelNotFound),
              path + " cannot be read: " + std::system_category().message(systemError));
}

[[noreturn]] void unmappable(const std::string& path, ErrorCode code, int systemError) {
  throw Error(refusal(systemError, code), path + " cannot be mapped into memory: " +
                                              std::system_category().message(systemError));
}

#ifdef _WIN32
struct Handle {
  HANDLE value;
  ~Handle() {
    if (value != nullptr && value != INVALID_HANDLE_VALUE) CloseHandle(value);
  }
};
#else
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};
#endif

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, ErrorCode code) {
  const std::filesystem::path file = std::filesystem::u8path(path);
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure))
    throw Error(ErrorCode::modelNotFound, "no file at " + path);

#ifdef _WIN32
  const Handle opened{CreateFileW(file.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr)};
  if (opened.value == INVALID_HANDLE_VALUE) unreadable(path, static_cast<int>(GetLastError()));
  LARGE_INTEGER length;
  if (!GetFileSizeEx(opened.value, &length)) unreadable(path, static_cast<int>(GetLastError()));
  if (length.QuadPart == 0) throw Error(code, path + " is empty");
  const Handle mapping{CreateFileMappingW(opened.value, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  if (mapping.value == nullptr) unmappable(path, code, static_cast<int>(GetLastError()));
  const void* data = MapViewOfFile(mapping.value, FILE_MAP_READ, 0, 0, 0);
  if (data == nullptr) unmappable(path, code, static_cast<int>(GetLastError()));
  const auto size = static_cast<std::size_t>(length.QuadPart);
#else
  const Descriptor opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.value < 0) unreadable(path, errno);
  struct stat status {};
  if (::fstat(opened.value, &status) != 0) unreadable(path, errno);
  if (status.st_size == 0) throw Error(code, path + " is empty");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.value, 0);
  if (data == MAP_FAILED) unmappable(path, code, errno);
#endif
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
#ifdef _WIN32
  UnmapViewOfFile(data_);
#else
  ::munmap(const_cast<std::uint8_t*>(data_), size_);
#endif
}

}  // namespace isopro
