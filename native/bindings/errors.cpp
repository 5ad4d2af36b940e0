#include "bindings/errors.h"

#include <new>

#include "support/error.h"

namespace isopro::bindings {
namespace {

// Takes no memory of its own: what it reports may be that there is none.
Napi::Error withCode(Napi::Env env, const char* code, const char* message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code));
  return error;
}

}  // namespace

Napi::Error toJsError(Napi::Env env, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return withCode(env, error.code().c_str(), error.what());
  } catch (const Napi::Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return withCode(env, "OUT_OF_MEMORY", "the system gave no more memory");
  } catch (const std::exception& error) {
    return withCode(env, "NATIVE_FAILURE", error.what());
  } catch (...) {
    return withCode(env, "NATIVE_FAILURE", "an exception of unknown type");
  }
}

}  // namespace isopro::bindings
