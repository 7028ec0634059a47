//! From records to calls.

use super::{Fail, OpenCl};
use crate::staging::Hold;
use busbar_wire::WireError;
use busbar_wire::codec::{Message, Reader};
use busbar_wire::generated::opencl::{self as wire, op};
use busbar_wire::record::Header;

/// Reads a whole message.
fn read<'a, M: Message<'a>>(payload: &'a [u8]) -> Result<M, WireError> {
    let mut r = Reader::new(payload);
    let m = M::decode(&mut r)?;
    r.finish()?;
    Ok(m)
}

macro_rules! dispatch {
    ($self:ident, $h:ident, $payload:ident, $hold:ident;
     $($op:ident => $m:ident $method:ident ($($arg:ident),*),)*) => {
        match $h.op {
            $(op::$op => {
                $self.$method(read::<wire::$m>($payload)? $(, dispatch!(@$arg $h $hold))*)
            })*
            other => Err(WireError::UnknownOp(other).into()),
        }
    };
    (@call $h:ident $hold:ident) => { $h.call };
    (@hold $h:ident $hold:ident) => { $hold };
}

impl OpenCl {
    /// Executes one record.
    pub(super) fn run(
        &mut self,
        h: &Header,
        payload: &[u8],
        hold: &mut Hold<'_>,
    ) -> Result<(), Fail> {
        dispatch! { self, h, payload, hold;
            LAUNCH_KERNEL => LaunchKernel launch(),
            WRITE_BUFFER => WriteBuffer write_buffer(hold),
            READ_BUFFER => ReadBuffer read_buffer(call),
            COPY_SHARED => CopyShared copy_shared(call),
            SHARE_MEMORY => ShareMemory share_memory(call),
            UNSHARE_MEMORY => UnshareMemory unshare_memory(),
            RELEASE => Release release(),
            FINISH => Finish finish(call),
            FLUSH => Flush flush(),
            WAIT_FOR_EVENTS => WaitForEvents wait_for_events(call),
            EVENT_STATUS => EventStatus event_status(call),
            EVENT_PROFILE => EventProfile event_profile(call),
            EVENT_CALLBACK => EventCallback event_callback(),
            CREATE_USER_EVENT => CreateUserEvent create_user_event(),
            SET_USER_EVENT_STATUS => SetUserEventStatus set_user_event_status(),
            MARKER => Marker marker(),
            BLOB => Blob blob(),
            CHECK => Check check(call),
            DESCRIBE => Describe describe(call),
            DEVICE_INFO => DeviceInfo device_info(call),
            DEVICE_TIMER => DeviceTimer device_timer(call),
            CREATE_SUB_DEVICES => CreateSubDevices create_sub_devices(call),
            CREATE_CONTEXT => CreateContext create_context(),
            IMAGE_FORMATS => ImageFormats image_formats(call),
            CREATE_QUEUE => CreateQueue create_queue(),
            SET_DEFAULT_QUEUE => SetDefaultQueue set_default_queue(call),
            CREATE_BUFFER => CreateBuffer create_buffer(),
            CREATE_SUB_BUFFER => CreateSubBuffer create_sub_buffer(),
            CREATE_IMAGE => CreateImage create_image(),
            IMAGE_INFO => ImageInfo image_info(call),
            CREATE_SAMPLER => CreateSampler create_sampler(),
            CREATE_PROGRAM_WITH_SOURCE => CreateProgramWithSource create_program_with_source(),
            CREATE_PROGRAM_WITH_BINARY => CreateProgramWithBinary create_program_with_binary(call),
            CREATE_PROGRAM_WITH_BUILT_IN_KERNELS =>
                CreateProgramWithBuiltInKernels create_program_with_built_in_kernels(call),
            CREATE_PROGRAM_WITH_IL => CreateProgramWithIl create_program_with_il(call),
            LOAD_PROGRAM => LoadProgram load_program(),
            BUILD_LOADED => BuildLoaded build_loaded(),
            BUILD_PROGRAM => BuildProgram build_program(call),
            COMPILE_PROGRAM => CompileProgram compile_program(call),
            LINK_PROGRAM => LinkProgram link_program(call),
            PROGRAM_BINARIES => ProgramBinaries program_binaries(call),
            SET_SPECIALIZATION_CONSTANT =>
                SetSpecializationConstant set_specialization_constant(call),
            CREATE_KERNEL => CreateKernel create_kernel(),
            CLONE_KERNEL => CloneKernel clone_kernel(),
            KERNEL_EXEC_INFO => KernelExecInfo kernel_exec_info(call),
            SUB_GROUP_INFO => SubGroupInfo sub_group_info(call),
            SUGGESTED_LOCAL_SIZE => SuggestedLocalSize suggested_local_size(call),
            COPY_BUFFER => CopyBuffer copy_buffer(),
            WRITE_BUFFER_RECT => WriteBufferRect write_buffer_rect(hold),
            READ_BUFFER_RECT => ReadBufferRect read_buffer_rect(call),
            COPY_BUFFER_RECT => CopyBufferRect copy_buffer_rect(),
            FILL_BUFFER => FillBuffer fill_buffer(),
            WRITE_IMAGE => WriteImage write_image(hold),
            READ_IMAGE => ReadImage read_image(call),
            COPY_IMAGE => CopyImage copy_image(),
            COPY_IMAGE_TO_BUFFER => CopyImageToBuffer copy_image_to_buffer(),
            COPY_BUFFER_TO_IMAGE => CopyBufferToImage copy_buffer_to_image(),
            FILL_IMAGE => FillImage fill_image(),
            MIGRATE => Migrate migrate(),
            SVM_ALLOC => SvmAlloc svm_alloc(call),
            SVM_FREE => SvmFree svm_free(),
            SVM_WRITE => SvmWrite svm_write(hold),
            SVM_READ => SvmRead svm_read(call),
            SVM_COPY => SvmCopy svm_copy(),
            SVM_FILL => SvmFill svm_fill(),
            SVM_MIGRATE => SvmMigrate svm_migrate(),
        }
    }
}
