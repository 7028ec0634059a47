//! Undocumented tables.

#[local] #[todo] #[get_proc("cuGetExportTable", 3000)]
fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) -> CUresult;
