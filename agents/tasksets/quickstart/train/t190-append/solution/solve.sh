#!/bin/bash
set -e
cd /app
echo station >> record.txt
echo pencil > notes.txt
