#!/bin/bash
set -e
cd /app
echo smart > list.txt
