//! Texture and surface objects and references.

#[custom] #[cx] #[get_proc("cuSurfObjectCreate", 5000)]
fn cuSurfObjectCreate(
    #[out] pSurfObject: *mut CUsurfObject,
    #[in_ref] pResDesc: *const CUDA_RESOURCE_DESC,
) -> CUresult;

#[id(0x1101)] #[queued] #[by_hand(client)] #[cx] #[get_proc("cuSurfObjectDestroy", 5000)]
#[destroys(SurfObject, surfObject)]
fn cuSurfObjectDestroy(surfObject: CUsurfObject) -> CUresult;

#[cx(local)] #[is(description(&cx.state().surfaces, surfObject))] #[get_proc("cuSurfObjectGetResourceDesc", 5000)]
fn cuSurfObjectGetResourceDesc(
    #[out] pResDesc: *mut CUDA_RESOURCE_DESC,
    surfObject: CUsurfObject,
) -> CUresult;

#[cx] #[is(bound(hSurfRef, SURFACE_ARRAY))] #[get_proc("cuSurfRefGetArray", 3000)]
fn cuSurfRefGetArray(
    #[gives(one)] phArray: *mut CUarray,
    #[handle] hSurfRef: CUsurfref,
) -> CUresult;

#[id(0x1102)] #[waits] #[get_proc("cuSurfRefSetArray", 3000)]
#[changes(SurfRef, "array")]
fn cuSurfRefSetArray(
    #[handle] hSurfRef: CUsurfref,
    #[handle] hArray: CUarray,
    Flags: u32,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuTexObjectCreate", 5000)]
fn cuTexObjectCreate(
    #[out] pTexObject: *mut CUtexObject,
    #[in_ref] pResDesc: *const CUDA_RESOURCE_DESC,
    #[in_ref] pTexDesc: *const CUDA_TEXTURE_DESC,
    pResViewDesc: *const CUDA_RESOURCE_VIEW_DESC,
) -> CUresult;

#[id(0x1103)] #[queued] #[by_hand(client)] #[cx(context)] #[get_proc("cuTexObjectDestroy", 5000)]
#[destroys(TexObject, texObject)]
fn cuTexObjectDestroy(texObject: CUtexObject) -> CUresult;

#[cx(local)] #[is(description(&cx.state().textures, texObject))] #[get_proc("cuTexObjectGetResourceDesc", 5000)]
fn cuTexObjectGetResourceDesc(
    #[out] pResDesc: *mut CUDA_RESOURCE_DESC,
    texObject: CUtexObject,
) -> CUresult;

#[id(0x1104)] #[waits] #[get_proc("cuTexObjectGetResourceViewDesc", 5000)]
fn cuTexObjectGetResourceViewDesc(
    #[out] pResViewDesc: *mut CUDA_RESOURCE_VIEW_DESC,
    texObject: CUtexObject,
) -> CUresult;

#[id(0x1105)] #[waits] #[get_proc("cuTexObjectGetTextureDesc", 5000)]
fn cuTexObjectGetTextureDesc(
    #[out] pTexDesc: *mut CUDA_TEXTURE_DESC,
    texObject: CUtexObject,
) -> CUresult;

#[id(0x1106)] #[queued] #[cx(context)] #[get_proc("cuTexRefCreate", 2000)]
fn cuTexRefCreate(#[new] pTexRef: *mut CUtexref) -> CUresult;

#[id(0x1107)] #[queued] #[get_proc("cuTexRefDestroy", 2000)]
fn cuTexRefDestroy(#[del] hTexRef: CUtexref) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuTexRefGetAddress", 2000)]
fn cuTexRefGetAddress(pdptr: *mut CUdeviceptr_v1, hTexRef: CUtexref) -> CUresult;

#[id(0x1108)] #[waits] #[get_proc("cuTexRefGetAddressMode", 2000)]
fn cuTexRefGetAddressMode(
    #[out] pam: *mut CUaddress_mode,
    #[handle] hTexRef: CUtexref,
    dim: i32,
) -> CUresult;

#[id(0x1109)] #[waits] #[get_proc("cuTexRefGetAddress", 3020)]
fn cuTexRefGetAddress_v2(#[out] pdptr: *mut CUdeviceptr, #[handle] hTexRef: CUtexref) -> CUresult;

#[cx] #[is(bound(hTexRef, TEXTURE_ARRAY))] #[get_proc("cuTexRefGetArray", 2000)]
fn cuTexRefGetArray(#[gives(one)] phArray: *mut CUarray, #[handle] hTexRef: CUtexref) -> CUresult;

#[id(0x110a)] #[waits] #[get_proc("cuTexRefGetBorderColor", 8000)]
fn cuTexRefGetBorderColor(
    #[out_array(4)] pBorderColor: *mut f32,
    #[handle] hTexRef: CUtexref,
) -> CUresult;

#[id(0x110b)] #[waits] #[get_proc("cuTexRefGetFilterMode", 2000)]
fn cuTexRefGetFilterMode(#[out] pfm: *mut CUfilter_mode, #[handle] hTexRef: CUtexref) -> CUresult;

#[id(0x110c)] #[waits] #[get_proc("cuTexRefGetFlags", 2000)]
fn cuTexRefGetFlags(#[out] pFlags: *mut u32, #[handle] hTexRef: CUtexref) -> CUresult;

#[id(0x110d)] #[waits] #[get_proc("cuTexRefGetFormat", 2000)]
fn cuTexRefGetFormat(
    #[out] pFormat: *mut CUarray_format,
    #[out] pNumChannels: *mut i32,
    #[handle] hTexRef: CUtexref,
) -> CUresult;

#[id(0x110e)] #[waits] #[get_proc("cuTexRefGetMaxAnisotropy", 5000)]
fn cuTexRefGetMaxAnisotropy(#[out] pmaxAniso: *mut i32, #[handle] hTexRef: CUtexref) -> CUresult;

#[id(0x110f)] #[waits] #[get_proc("cuTexRefGetMipmapFilterMode", 5000)]
fn cuTexRefGetMipmapFilterMode(
    #[out] pfm: *mut CUfilter_mode,
    #[handle] hTexRef: CUtexref,
) -> CUresult;

#[id(0x1110)] #[waits] #[get_proc("cuTexRefGetMipmapLevelBias", 5000)]
fn cuTexRefGetMipmapLevelBias(#[out] pbias: *mut f32, #[handle] hTexRef: CUtexref) -> CUresult;

#[id(0x1111)] #[waits] #[get_proc("cuTexRefGetMipmapLevelClamp", 5000)]
fn cuTexRefGetMipmapLevelClamp(
    #[out] pminMipmapLevelClamp: *mut f32,
    #[out] pmaxMipmapLevelClamp: *mut f32,
    #[handle] hTexRef: CUtexref,
) -> CUresult;

#[cx] #[is(bound(hTexRef, TEXTURE_MIPMAPPED_ARRAY))] #[get_proc("cuTexRefGetMipmappedArray", 5000)]
fn cuTexRefGetMipmappedArray(
    #[gives(one)] phMipmappedArray: *mut CUmipmappedArray,
    #[handle] hTexRef: CUtexref,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuTexRefSetAddress", 2000)]
fn cuTexRefSetAddress(
    ByteOffset: *mut u32,
    hTexRef: CUtexref,
    dptr: CUdeviceptr_v1,
    bytes: u32,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuTexRefSetAddress2D", 2020)]
fn cuTexRefSetAddress2D(
    hTexRef: CUtexref,
    desc: *const CUDA_ARRAY_DESCRIPTOR_v1,
    dptr: CUdeviceptr_v1,
    Pitch: u32,
) -> CUresult;

#[is(cuTexRefSetAddress2D_v3)] #[get_proc("cuTexRefSetAddress2D", 3020)]
fn cuTexRefSetAddress2D_v2(
    hTexRef: CUtexref,
    desc: *const CUDA_ARRAY_DESCRIPTOR,
    dptr: CUdeviceptr,
    Pitch: usize,
) -> CUresult;

#[id(0x1112)] #[waits] #[get_proc("cuTexRefSetAddress2D", 4010)]
#[changes(TexRef, "address")]
fn cuTexRefSetAddress2D_v3(
    #[handle] hTexRef: CUtexref,
    #[in_ref] desc: *const CUDA_ARRAY_DESCRIPTOR,
    dptr: CUdeviceptr,
    Pitch: usize,
) -> CUresult;

#[id(0x1113)] #[waits] #[get_proc("cuTexRefSetAddressMode", 2000)]
#[changes(TexRef, "address mode")]
fn cuTexRefSetAddressMode(#[handle] hTexRef: CUtexref, dim: i32, am: CUaddress_mode) -> CUresult;

#[id(0x1114)] #[waits] #[get_proc("cuTexRefSetAddress", 3020)]
#[changes(TexRef, "address")]
fn cuTexRefSetAddress_v2(
    #[out(optional)] ByteOffset: *mut usize,
    #[handle] hTexRef: CUtexref,
    dptr: CUdeviceptr,
    bytes: usize,
) -> CUresult;

#[id(0x1115)] #[waits] #[get_proc("cuTexRefSetArray", 2000)]
#[changes(TexRef, "array")]
fn cuTexRefSetArray(
    #[handle] hTexRef: CUtexref,
    #[handle(optional)] hArray: CUarray,
    Flags: u32,
) -> CUresult;

#[id(0x1116)] #[waits] #[get_proc("cuTexRefSetBorderColor", 8000)]
#[changes(TexRef, "border color")]
fn cuTexRefSetBorderColor(
    #[handle] hTexRef: CUtexref,
    #[in_array(4)] pBorderColor: *mut f32,
) -> CUresult;

#[id(0x1117)] #[waits] #[get_proc("cuTexRefSetFilterMode", 2000)]
#[changes(TexRef, "filter mode")]
fn cuTexRefSetFilterMode(#[handle] hTexRef: CUtexref, fm: CUfilter_mode) -> CUresult;

#[id(0x1118)] #[waits] #[get_proc("cuTexRefSetFlags", 2000)]
#[changes(TexRef, "flags")]
fn cuTexRefSetFlags(#[handle] hTexRef: CUtexref, Flags: u32) -> CUresult;

#[id(0x1119)] #[waits] #[get_proc("cuTexRefSetFormat", 2000)]
#[changes(TexRef, "format")]
fn cuTexRefSetFormat(
    #[handle] hTexRef: CUtexref,
    fmt: CUarray_format,
    NumPackedComponents: i32,
) -> CUresult;

#[id(0x111a)] #[waits] #[get_proc("cuTexRefSetMaxAnisotropy", 5000)]
#[changes(TexRef, "max anisotropy")]
fn cuTexRefSetMaxAnisotropy(#[handle] hTexRef: CUtexref, maxAniso: u32) -> CUresult;

#[id(0x111b)] #[waits] #[get_proc("cuTexRefSetMipmapFilterMode", 5000)]
#[changes(TexRef, "mipmap filter mode")]
fn cuTexRefSetMipmapFilterMode(#[handle] hTexRef: CUtexref, fm: CUfilter_mode) -> CUresult;

#[id(0x111c)] #[waits] #[get_proc("cuTexRefSetMipmapLevelBias", 5000)]
#[changes(TexRef, "mipmap level bias")]
fn cuTexRefSetMipmapLevelBias(#[handle] hTexRef: CUtexref, bias: f32) -> CUresult;

#[id(0x111d)] #[waits] #[get_proc("cuTexRefSetMipmapLevelClamp", 5000)]
#[changes(TexRef, "mipmap level clamp")]
fn cuTexRefSetMipmapLevelClamp(
    #[handle] hTexRef: CUtexref,
    minMipmapLevelClamp: f32,
    maxMipmapLevelClamp: f32,
) -> CUresult;

#[id(0x111e)] #[waits] #[get_proc("cuTexRefSetMipmappedArray", 5000)]
#[changes(TexRef, "mipmapped array")]
fn cuTexRefSetMipmappedArray(
    #[handle] hTexRef: CUtexref,
    #[handle(optional)] hMipmappedArray: CUmipmappedArray,
    Flags: u32,
) -> CUresult;
